//! What goes in and out of the merges: the names of nodes, shards and interests, and what is wanted done.

use weir_core::ResourceVersion;
use weir_core::message::{Credit, InterestEvent, LogRequest, ToNode};

/// Events that a node may send for one registration before the proxy has released them: 1,024 × about 4 KiB is 4 MiB. A
/// range holds at most twice that and one chunk of the log, while another range of its interest hangs.
pub const CREDIT: Credit = Credit(1_024);

/// Which shard of the space, in the order in which they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardIndex(pub usize);

/// One node, a replica of one or more shards. A number is never used for another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub usize);

/// Names one open interest of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterestId(pub u64);

/// For which range, and whom, a log is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The node to ask.
    pub node: NodeIndex,
    /// The interest.
    pub interest: InterestId,
    /// Its range.
    pub shard: ShardIndex,
}

/// Why an interest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// No node can lead a range on from where it is: clients that are as far back must list again.
    TooOld,
    /// Upstream was restored: no position of before is one of the present history, all clients must list again.
    Restored,
    /// The mirror has ended with all that it had.
    Over,
}

/// What the merge wants done, in order.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send a message on the session of a node.
    Send(NodeIndex, ToNode),
    /// Ask a node for its log, and give the answer to [`Merges::on_log`].
    AskLog(Asked, LogRequest),
    /// These events are next for the clients of an interest.
    Release(InterestId, Vec<InterestEvent>),
    /// The interest cannot go on.
    Ended(InterestId, End),
    /// Upstream's history went back; nothing up to this position may be resumed.
    Restored(ResourceVersion),
    /// The position of the last [`Output::Restored`] is this higher one: another node had shown more.
    Refused(ResourceVersion),
}
