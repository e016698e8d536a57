//! The binary as a person or a script runs it: what it prints, what it exits with. What it serves is tested in process, in
//! the crate `tests`.

#[cfg(test)]
mod canaries;
#[cfg(test)]
mod dev;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod usage;
