//! The whole of weir in front of a simulated apiserver, over real connections, judged by the checker against upstream's log.
//! A test here says what a client sees; which part of weir is at fault when it fails, the tests of the parts say.
//!
//! Time is real, so nothing here waits for a time to pass where it can wait for something to happen.

#[cfg(test)]
mod audits;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod client;
#[cfg(test)]
mod door;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod entrance;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod fresh;
#[cfg(test)]
mod lagging;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod loading;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod options;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod passing;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod quiet;
#[cfg(test)]
mod rechecks;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod restores;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod shards;
#[cfg(test)]
mod slow;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod ticks;
#[cfg(test)]
mod truth;
#[cfg(test)]
mod watcher;
#[cfg(test)]
mod watches;
#[cfg(test)]
mod windows;
#[cfg(test)]
mod world;
