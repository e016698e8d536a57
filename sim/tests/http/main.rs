//! The simulated apiserver over a real socket, spoken to by a client that knows nothing but bytes: what hyper makes of
//! a body that breaks off cannot be seen with a client that hides it.

#[cfg(test)]
mod client;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod protocols;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod writes;
