//! What travels between weir's processes: round trips, bytes that must not change, bytes that nobody meant.

#[cfg(test)]
mod golden;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod kinds;
#[cfg(test)]
mod meaning;
#[cfg(test)]
mod parts;
#[cfg(test)]
mod required;
#[cfg(test)]
mod round_trips;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod shared;
