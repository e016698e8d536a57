//! The whole of weir in front of a simulated apiserver, over real connections, judged by the checker against upstream's log.
//! A test here says what a client sees; which part of weir is at fault when it fails, the tests of the parts say.
//!
//! Time is real, so nothing here waits for a time to pass where it can wait for something to happen.

mod client;
mod faults;
mod fresh;
mod lists;
mod options;
mod restores;
mod rights;
mod shards;
mod slow;
mod stream;
mod truth;
mod watcher;
mod watches;
mod world;
