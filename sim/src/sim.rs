//! The handle on a running simulation: a cluster behind a lock, and a signal for those who wait for it to change.
//!
//! The lock is held for one question or one write, never over an await. Whoever changes the cluster goes through
//! [`Sim::with`], which wakes the streams; a change made any other way would be seen late.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use weir_core::Status;

use crate::catalog::ResourceId;
use crate::cluster::{Cluster, ClusterConfig, Record};
use crate::fault::{Effect, Fault, Fits, Frozen, InstanceId, Rule};
use crate::instance::Pace;
use crate::json::Node;
use crate::users::{User, Users};
use crate::write::{Op, Written};

/// How a simulation is made.
#[derive(Debug, Clone)]
pub struct SimConfig {
    /// The cluster.
    pub cluster: ClusterConfig,
    /// Tokens and whom they stand for.
    pub users: Vec<(String, User)>,
    /// How long things take.
    pub timing: Timing,
}

/// The waits of the HTTP server. The defaults are upstream's.
#[derive(Debug, Clone)]
pub struct Timing {
    /// How long a request waits for a revision.
    pub patience: Duration,
    /// How far plain bookmarks are apart.
    pub bookmark_period: Duration,
    /// How long before its end a watch gets its last bookmark.
    pub last_bookmark: Duration,
    /// How soon after its start a watch that got an end mark may get a plain bookmark.
    pub first_bookmark: Duration,
    /// How long a watch without timeoutSeconds runs.
    pub watch_timeout: Duration,
}

/// One request that an instance received, as an audit log would name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// Who received it.
    pub instance: InstanceId,
    /// The verb as access rules name it; the method in lower case for a path that is no resource.
    pub verb: String,
    /// Path and query as sent.
    pub uri: String,
    /// The User-Agent header.
    pub user_agent: String,
    /// The user; empty for a token that nobody has.
    pub user: String,
    /// The code of the answer.
    pub code: u16,
}

/// A running simulation. Clones are handles on the same one.
#[derive(Debug, Clone)]
pub struct Sim(Arc<Shared>);

/// One instance of a simulation, for making faults happen.
#[derive(Debug, Clone)]
pub struct InstanceHandle {
    sim: Sim,
    id: InstanceId,
}

#[derive(Debug)]
struct Shared {
    cluster: Mutex<Cluster>,
    users: Mutex<Users>,
    requests: Mutex<VecDeque<RequestLine>>,
    changed: watch::Sender<u64>,
    timing: Timing,
}

/// About 10 MB; the oldest go first, so whoever asserts on requests takes them out with [`Sim::take_requests`].
const REQUEST_LINES: usize = 65_536;

// === impl SimConfig ===

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            cluster: ClusterConfig::default(),
            users: vec![("admin".to_owned(), User::admin("admin"))],
            timing: Timing::default(),
        }
    }
}

// === impl Timing ===

impl Default for Timing {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(3),
            bookmark_period: Duration::from_secs(60),
            last_bookmark: Duration::from_secs(2),
            first_bookmark: Duration::from_secs(1),
            watch_timeout: Duration::from_secs(2_700),
        }
    }
}

// === impl Sim ===

impl Sim {
    /// Starts a simulation; nothing listens yet.
    pub fn new(config: SimConfig) -> Self {
        let mut users = Users::default();
        for (token, user) in config.users {
            users.set(&token, user);
        }
        Self(Arc::new(Shared {
            cluster: Mutex::new(Cluster::new(config.cluster)),
            users: Mutex::new(users),
            requests: Mutex::new(VecDeque::new()),
            changed: watch::Sender::new(0),
            timing: config.timing,
        }))
    }

    /// Lets `change` at the cluster, then wakes all who wait for it.
    pub fn with<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let result = change(&mut self.0.cluster.lock());
        self.0.changed.send_modify(|count| *count += 1);
        result
    }

    /// Looks at the cluster without waking anyone.
    pub fn read<T>(&self, look: impl FnOnce(&Cluster) -> T) -> T {
        look(&self.0.cluster.lock())
    }

    /// Does one write.
    ///
    /// # Errors
    /// 404, 409 or 422, as upstream says them.
    pub fn apply(&self, op: Op) -> Result<Written, Status> {
        self.with(|cluster| cluster.apply(op))
    }

    /// Makes revisions below the present unreadable.
    pub fn compact(&self) {
        self.with(|cluster| cluster.inject(Fault::Compact));
    }

    /// Keeps a copy of the log.
    pub fn back_up(&self) {
        self.with(|cluster| cluster.inject(Fault::Backup));
    }

    /// Makes the last kept copy the log; all instances start anew.
    pub fn restore(&self) {
        self.with(|cluster| cluster.inject(Fault::Restore));
    }

    /// Gives a custom resource a default: bytes change at the same revisions, its watches end.
    pub fn add_default(&self, resource: ResourceId, path: &[&str], value: Node) {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        self.with(|cluster| cluster.inject(Fault::AddDefault { resource, path, value }));
    }

    /// The truth: every event and upheaval in order, as far back as it is kept.
    pub fn log(&self) -> Vec<Record> {
        self.ask(|cluster| cluster.record().cloned().collect())
    }

    /// A resource by the name that users write: `pods`, `deployments.apps`.
    pub fn resource(&self, name: &str) -> Option<ResourceId> {
        self.ask(|cluster| cluster.resource(name))
    }

    /// One instance, for making faults happen.
    pub fn instance(&self, index: usize) -> InstanceHandle {
        InstanceHandle { sim: self.clone(), id: InstanceId(index) }
    }

    /// Changes who may do what.
    pub fn with_users<T>(&self, change: impl FnOnce(&mut Users) -> T) -> T {
        change(&mut self.0.users.lock())
    }

    /// The requests received since the last call, oldest first; at most the last 65,536.
    pub fn take_requests(&self) -> Vec<RequestLine> {
        self.0.requests.lock().drain(..).collect()
    }

    /// Asks the cluster something that changes nothing that others wait for.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&mut Cluster) -> T) -> T {
        question(&mut self.0.cluster.lock())
    }

    pub(crate) fn who(&self, authorization: Option<&str>) -> Option<User> {
        self.0.users.lock().who(authorization)
    }

    pub(crate) fn note(&self, line: RequestLine) {
        let mut requests = self.0.requests.lock();
        if requests.len() == REQUEST_LINES {
            requests.pop_front();
        }
        requests.push_back(line);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    pub(crate) fn timing(&self) -> &Timing {
        &self.0.timing
    }
}

// === impl InstanceHandle ===

impl InstanceHandle {
    /// Which one it is.
    pub fn id(&self) -> InstanceId {
        self.id
    }

    /// Makes it stay so many revisions behind the log.
    pub fn delay(&self, revisions: u64) {
        self.inject(Fault::Pace(self.id, Pace::Behind(revisions)));
    }

    /// Makes it stand still in the log; it goes on answering.
    pub fn hold(&self) {
        self.inject(Fault::Pace(self.id, Pace::Held));
    }

    /// Makes it follow the log at once again.
    pub fn catch_up(&self) {
        self.inject(Fault::Pace(self.id, Pace::Current));
    }

    /// Stops it from answering anything, as SIGSTOP does.
    pub fn freeze(&self) {
        self.inject(Fault::Freeze(self.id, Frozen::Yes));
    }

    /// Ends a freeze.
    pub fn thaw(&self) {
        self.inject(Fault::Freeze(self.id, Frozen::No));
    }

    /// Lets its watches of a collection say nothing; it answers everything else.
    pub fn mute(&self, resource: ResourceId) {
        self.inject(Fault::Mute(self.id, resource, Frozen::Yes));
    }

    /// Lets them go on.
    pub fn unmute(&self, resource: ResourceId) {
        self.inject(Fault::Mute(self.id, resource, Frozen::No));
    }

    /// Starts it anew: its streams end and its watch history begins at the present.
    pub fn restart(&self) {
        self.inject(Fault::Restart(self.id));
    }

    /// Ends all its streams cleanly.
    pub fn end_streams(&self) {
        self.inject(Fault::EndStreams(self.id));
    }

    /// Breaks all its streams.
    pub fn cut_streams(&self) {
        self.inject(Fault::CutStreams(self.id));
    }

    /// Answers the next `times` requests that fit as while its cache is being made.
    pub fn not_ready(&self, fits: Fits, times: u32) {
        self.inject(Fault::Rule(self.id, Rule { fits, times, effect: Effect::NotReady }));
    }

    /// Overwrites its watch history of a collection up to the present.
    pub fn forget_history(&self, resource: ResourceId) {
        self.inject(Fault::ForgetHistory(self.id, resource));
    }

    /// Plants the loss of the next event of a collection in its watches.
    pub fn lose_next(&self, resource: ResourceId) {
        self.inject(Fault::LoseNext(self.id, resource));
    }

    /// Refuses the next `times` requests that fit with an error of that code.
    pub fn refuse(&self, fits: Fits, times: u32, code: u16) {
        self.inject(Fault::Rule(self.id, Rule { fits, times, effect: Effect::Refuse(code) }));
    }

    /// Breaks the next watch of a collection after so many events.
    pub fn cut_after(&self, resource: ResourceId, events: u32) {
        let effect = Effect::CutAfter(events);
        self.inject(Fault::Rule(self.id, Rule { fits: Fits::both("watch", resource), times: 1, effect }));
    }

    /// Breaks the body of the next list of a collection off after so many bytes.
    pub fn truncate_at(&self, resource: ResourceId, bytes: usize) {
        let effect = Effect::TruncateAt(bytes);
        self.inject(Fault::Rule(self.id, Rule { fits: Fits::both("list", resource), times: 1, effect }));
    }

    /// Lets bodies flow at most at this rate; `None` lifts it.
    pub fn throttle(&self, bytes_per_second: Option<u32>) {
        self.throttle_only(Fits::default(), bytes_per_second);
    }

    /// The same for answers to requests that fit; all others flow freely.
    pub fn throttle_only(&self, fits: Fits, bytes_per_second: Option<u32>) {
        self.inject(Fault::Throttle(self.id, fits, bytes_per_second));
    }

    fn inject(&self, fault: Fault) {
        self.sim.with(|cluster| cluster.inject(fault));
    }
}
