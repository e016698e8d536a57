//! The task that reads one mirror from upstream: connect, verify, list or watch, and again. It ends when it is dropped, or
//! when the resource is not there any more: no instance serves it, or as something else.
//!
//! A watch that ends by its own time goes on over the same connection under the same source; everything else takes a new
//! connection, and a new connection is verified before it states anything.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use tracing::{debug, info, warn};
use weir_core::message::{Change, ListId};
use weir_core::mirror::{JsonForm, MirrorSpec};
use weir_core::statement::Statement;
use weir_core::{History, ResourceVersion};
use weir_upstream::{Connection, Role, Upstream};

use super::beside::{Beside, Turn};
use super::describe::{self, DescribeError};
use super::facts;
use super::failure::{ReadError, Served, within};
use super::handle::FeedHandle;
use super::list::{Listed, WholeList};
use super::plan::{InstanceIndex, Plan, Step};
use super::prove::{Answered, Asking};
use super::ring::{Ring, Wanted};
use super::verify::{Known, Memory, Verdict};
use super::watch::{WatchError, Watching};

/// The limits of a feed's conversation with upstream.
#[derive(Clone, Copy, Debug)]
pub struct ReaderLimits {
    /// The shortest time that a watch asks for.
    pub watch_at_least: Duration,
    /// The longest.
    pub watch_at_most: Duration,
    /// How long an answer to a question, or one page of a list, may take.
    pub answer: Duration,
    /// How often it is looked at whether the frontier stands still. It is moved on after one to two times as long.
    pub look_every: Duration,
}

/// Reads one mirror.
#[derive(Debug)]
pub struct Reader {
    upstream: Upstream,
    spec: Arc<MirrorSpec>,
    feed: Arc<FeedHandle>,
    limits: ReaderLimits,
    plan: Plan,
    memory: Memory,
    asking: Asking,
    /// Whether the spec was made for the connection that comes next; a later one may serve something else.
    is_described: bool,
}

/// How a main watch ended.
#[derive(Clone, Copy, Debug)]
enum Ended {
    /// The plan says how to go on.
    Again,
    /// The connection served another history.
    Reconnect,
}

// === impl ReaderLimits ===

impl Default for ReaderLimits {
    fn default() -> Self {
        Self {
            watch_at_least: Duration::from_secs(300),
            watch_at_most: Duration::from_secs(600),
            answer: Duration::from_secs(60),
            look_every: Duration::from_secs(20),
        }
    }
}

// === impl Reader ===

impl Reader {
    /// A reader that has read nothing; `first` spreads the mirrors over the instances.
    pub fn new(
        upstream: Upstream,
        spec: Arc<MirrorSpec>,
        (feed, asking): (Arc<FeedHandle>, Asking),
        first: usize,
    ) -> Self {
        let plan = Plan::new(upstream.instances().len(), first);
        Self {
            upstream,
            spec,
            feed,
            limits: ReaderLimits::default(),
            plan,
            memory: Memory::default(),
            asking,
            is_described: true,
        }
    }

    /// The same with other limits.
    #[must_use]
    pub fn limited(self, limits: ReaderLimits) -> Self {
        Self { limits, ..self }
    }

    /// Reads until dropped, or until the resource is not there any more. It begins when the first subscriber says what it has.
    pub async fn run(mut self) {
        let (feed, look_every) = (self.feed.clone(), self.limits.look_every);
        // Boxed, since it is large and moves with whatever it is a part of.
        let read = Box::pin(self.read());
        tokio::select! {
            biased;
            () = feed.keep_house() => {}
            () = feed.keep_young(look_every) => {}
            () = read => {}
        }
    }

    async fn read(&mut self) {
        loop {
            let instance = self.begin().await.instance();
            let read = self.read_instance(instance).await;
            self.feed.change(Ring::disconnect);
            self.feed.set_source(None);
            let Err(error) = read else { continue };
            self.asking.refuse();
            let longest = self.plan.on_failed(instance);
            if self.is_over(instance, &error) {
                return;
            }
            let wait = longest.mul_f64(rand::rng().random_range(0.5..1.0));
            self.report(instance, &error, wait);
            tokio::time::sleep(wait).await;
        }
    }

    /// Where to begin, if that is not known: where the subscribers are, or with a list if none has anything.
    async fn begin(&mut self) -> Step {
        loop {
            if let Some(step) = self.plan.next() {
                return step;
            }
            let wanted = tokio::select! {
                biased;
                wanted = self.feed.wanted(|wanted| !wanted.is_nothing()) => wanted,
                () = self.asking.refuse_for_now() => continue,
            };
            match wanted {
                Wanted { history: Some(history), .. } => self.restored(history),
                Wanted { log: Some(after), .. } => self.plan.begin_at(after),
                Wanted { .. } => self.plan.begin_with_list(),
            }
        }
    }

    /// Whether there is nothing to read any more, as a failure says.
    fn is_over(&mut self, instance: InstanceIndex, error: &ReadError) -> bool {
        match error.served() {
            Served::No => self.plan.on_unserved(instance),
            Served::Yes => self.plan.on_served(),
            Served::Unknown => {}
        }
        let is_over = self.plan.is_gone() || matches!(error, ReadError::Changed);
        if is_over {
            let error: &dyn std::error::Error = error;
            info!(resource = %self.spec.resource, instance = instance.0, error, "feed is over");
        }
        is_over
    }

    /// Fails where upstream serves another resource by this name than the one that is read. Only definitions of custom
    /// resources change; upstream ends all watches when one does.
    async fn is_as_described(&mut self, connection: &Connection) -> Result<(), ReadError> {
        if std::mem::take(&mut self.is_described) || self.spec.form == JsonForm::BuiltIn {
            return Ok(());
        }
        match within(self.limits.answer, describe::describe(connection, &self.spec.resource)).await? {
            Ok(spec) if spec.is_same(&self.spec) => Ok(()),
            Err(DescribeError::Request(error)) => Err(error.into()),
            Err(DescribeError::Unknown(_)) => Err(ReadError::Unserved),
            Ok(_) | Err(_) => Err(ReadError::Changed),
        }
    }

    fn report(&self, instance: InstanceIndex, error: &ReadError, wait: Duration) {
        let error: &dyn std::error::Error = error;
        warn!(resource = %self.spec.resource, instance = instance.0, error, ?wait, "feed lost upstream");
    }

    /// One connection to one instance, until it fails, another instance is due or nothing that was read counts.
    async fn read_instance(&mut self, instance: InstanceIndex) -> Result<(), ReadError> {
        let instances = self.upstream.instances();
        let connection = Arc::new(instances[instance.0 % instances.len()].connect(Role::Feed).await?);
        let known =
            Known { read: self.plan.position(), by_subscribers: self.feed.look(Ring::highest_standing) };
        let verdict = self.memory.verify(&connection, &self.spec, known);
        match within(self.limits.answer, verdict).await?? {
            Verdict::SameHistory => {}
            Verdict::Restored => {
                let history = self.feed.history().next();
                self.restored(history);
            }
        }
        let (spec, feed, answer) = (self.spec.clone(), self.feed.clone(), self.limits.answer);
        let mut beside = Beside::new(connection.clone(), spec, feed, answer);
        loop {
            match self.begin().await {
                Step::List { .. } => {
                    beside.clear();
                    self.list(&connection, instance).await?;
                }
                Step::Watch { instance: other, .. } if other != instance => return Ok(()),
                Step::Watch { after, .. } => {
                    self.is_as_described(&connection).await?;
                    let learned = facts::learn(&self.feed, &connection, &self.spec);
                    within(self.limits.answer, learned).await??;
                    if let Ended::Reconnect = self.watch(&mut beside, &connection, (instance, after)).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Another history began: nothing that was read counts.
    fn restored(&mut self, history: History) {
        info!(resource = %self.spec.resource, %history, "another history of upstream began");
        self.feed.counters().restores.inc();
        self.feed.change(|ring| ring.restored(history));
        self.plan.on_restored();
        self.memory.clear();
    }

    /// A list for everybody: the feed has nothing, or no instance has the log from where it is.
    async fn list(&mut self, connection: &Arc<Connection>, instance: InstanceIndex) -> Result<(), ReadError> {
        let id = ListId(rand::random());
        let lost = self.plan.position();
        self.feed.change(|ring| {
            if let Some(lost) = lost {
                ring.lost(lost);
            }
            ring.begin_list(id);
        });
        let list = WholeList {
            connection: connection.clone(),
            spec: self.spec.clone(),
            feed: self.feed.clone(),
            answer: self.limits.answer,
        };
        // A list that breaks off was not read.
        let mut seen = Memory::default();
        let Listed { at, objects } = list.read(id, |object| seen.on_listed(object)).await?;
        self.memory.take_over(seen);
        info!(resource = %self.spec.resource, instance = instance.0, %at, objects, "listed");
        self.feed.change(|ring| ring.begin(at));
        self.plan.on_progress(instance, at);
        Ok(())
    }

    async fn watch(
        &mut self,
        beside: &mut Beside,
        connection: &Arc<Connection>,
        (instance, after): (InstanceIndex, ResourceVersion),
    ) -> Result<Ended, ReadError> {
        let spec = self.spec.clone();
        let bounds = self.limits.watch_at_least.as_secs()..self.limits.watch_at_most.as_secs();
        let seconds = u32::try_from(rand::rng().random_range(bounds)).unwrap_or(u32::MAX);
        let opening = Watching::open(connection, &spec, after, seconds);
        let mut main = match within(self.limits.answer, opening).await? {
            Ok(watching) => watching,
            Err(error) => return self.ended(instance, after, error),
        };
        debug!(resource = %self.spec.resource, instance = instance.0, %after, "watching");
        self.feed.counters().watches.inc();
        self.plan.on_served();
        self.feed.set_source(Some(main.source()));
        self.feed.change(|ring| ring.begin(after));
        loop {
            let frontier = self.plan.position().unwrap_or(after);
            // Not biased: a busy main watch must not keep late subscribers from their turn, nor they it.
            tokio::select! {
                said = main.next() => match said {
                    Ok(Some(statement)) => self.state(instance, statement),
                    Ok(None) => return Ok(Ended::Again),
                    Err(error) => return self.ended(instance, frontier, error),
                },
                turn = beside.next() => match turn? {
                    Turn::Said(statement) => self.state(instance, statement),
                    Turn::History(history) => {
                        self.restored(history);
                        return Ok(Ended::Reconnect);
                    }
                },
                answered = self.asking.next(connection, &spec, frontier) => answered_of(&answered?, beside)?,
            }
        }
    }

    fn state(&mut self, instance: InstanceIndex, statement: Statement<Change>) {
        if let Some(newest) = statement.events().last() {
            self.memory.on_change(newest);
        }
        let to = statement.to();
        if self.plan.position().is_some_and(|position| to <= position) {
            return;
        }
        self.feed.change(|ring| ring.push(statement));
        self.plan.on_progress(instance, to);
    }

    fn ended(
        &mut self,
        instance: InstanceIndex,
        after: ResourceVersion,
        error: WatchError,
    ) -> Result<Ended, ReadError> {
        if !error.is_expired() {
            return Err(error.into());
        }
        info!(resource = %self.spec.resource, instance = instance.0, %after, "log expired at this instance");
        self.plan.on_expired(instance, after);
        Ok(Ended::Again)
    }
}

fn answered_of(answered: &Answered, beside: &mut Beside) -> Result<(), ReadError> {
    let Answered { revision, frontier, catches_up, .. } = *answered;
    if let Some(revision) = revision.filter(|revision| *revision < frontier) {
        return Err(ReadError::WentBack { revision, frontier });
    }
    if let Some(revision) = revision.filter(|_| catches_up) {
        beside.catch_up(frontier, revision);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
