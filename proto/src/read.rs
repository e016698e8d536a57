//! Questions about what a node holds: snapshots, logs, counts, windows. An answer that a node cannot give is a message of
//! its own and ends the stream; a stream that just ends has not answered.

mod count;
mod list;
mod log;
mod window;

pub use count::{Count, CountAnswer};
pub use list::{List, ListAnswer};
pub use log::{Log, LogAnswer};
pub use window::{MirrorWindow, WindowRequest, Windows};
