//! Shard nodes together: feeds on one for all, what becomes of them when a node dies or stands still, warm starts.

#[cfg(test)]
mod feeds;
#[cfg(test)]
mod held;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod warm;
#[cfg(test)]
mod world;
