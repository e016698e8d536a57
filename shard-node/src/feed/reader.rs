//! The task that reads one mirror from upstream: connect, verify, list or watch, and again. It ends when it is dropped.
//!
//! A watch that ends by its own time goes on over the same connection under the same source; everything else takes a new
//! connection, and a new connection is verified before it states anything.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use tracing::{debug, info, warn};
use weir_core::message::{FeedMessage, ListId};
use weir_core::mirror::{BookmarkTemplate, MirrorFacts, MirrorSpec};
use weir_core::statement::Statement;
use weir_core::{History, ResourceVersion, message::Change};
use weir_upstream::{ConnectError, Connection, Role, Upstream};

use super::handle::FeedHandle;
use super::list::{Listing, ListingError};
use super::plan::{InstanceIndex, Plan, Step};
use super::prove::{Answered, Asking};
use super::request::RequestError;
use super::verify::{Memory, Verdict};
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
}

/// Why one connection was given up.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("connect to upstream")]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    List(#[from] ListingError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error("no answer within {0:?}")]
    Silent(Duration),
    #[error("upstream is at {revision}, the feed was at {frontier} when it asked")]
    WentBack { revision: ResourceVersion, frontier: ResourceVersion },
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
    history: History,
    asking: Asking,
}

/// A watch with what goes beside it on the same connection.
struct Streams {
    main: Watching,
    catch_up: Option<Watching>,
}

// === impl ReaderLimits ===

impl Default for ReaderLimits {
    fn default() -> Self {
        Self {
            watch_at_least: Duration::from_secs(300),
            watch_at_most: Duration::from_secs(600),
            answer: Duration::from_secs(60),
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
            history: History::FIRST,
            asking,
        }
    }

    /// Reads until dropped.
    pub async fn run(mut self) {
        loop {
            let instance = match self.plan.next() {
                Step::List { instance } | Step::Watch { instance, .. } => instance,
            };
            let Err(error) = self.read_instance(instance).await else { continue };
            self.asking.refuse();
            let longest = self.plan.on_failed(instance);
            let wait = longest.mul_f64(rand::rng().random_range(0.5..1.0));
            self.report(instance, &error, wait);
            tokio::time::sleep(wait).await;
        }
    }

    fn report(&self, instance: InstanceIndex, error: &ReadError, wait: Duration) {
        let error: &dyn std::error::Error = error;
        warn!(resource = %self.spec.resource, instance = instance.0, error, ?wait, "feed lost upstream");
    }

    /// One connection to one instance, until it fails or another instance is due.
    async fn read_instance(&mut self, instance: InstanceIndex) -> Result<(), ReadError> {
        let instances = self.upstream.instances();
        let connection = Arc::new(instances[instance.0 % instances.len()].connect(Role::Feed).await?);
        let frontier = self.plan.position();
        let verdict = self.memory.verify(&connection, &self.spec, frontier);
        match within(self.limits.answer, verdict).await?? {
            Verdict::SameHistory => {}
            Verdict::Restored => {
                self.history = self.history.next();
                self.feed.push(FeedMessage::Restored(self.history));
                self.plan.on_restored();
                self.memory.clear();
            }
        }
        loop {
            match self.plan.next() {
                Step::List { .. } => self.list(&connection, instance).await?,
                Step::Watch { instance: other, .. } if other != instance => return Ok(()),
                Step::Watch { after, .. } => self.watch(&connection, instance, after).await?,
            }
        }
    }

    async fn list(&mut self, connection: &Connection, instance: InstanceIndex) -> Result<(), ReadError> {
        let spec = self.spec.clone();
        let mut listing = Listing::new(connection, &spec, ListId(rand::random()));
        let mut objects = 0;
        loop {
            let page = within(self.limits.answer, listing.next_page()).await??;
            let (at, is_last) = (page.chunk.at, page.chunk.is_last);
            objects += page.chunk.objects.len();
            for object in &page.chunk.objects {
                self.memory.on_listed(object);
            }
            self.feed.room().await;
            if is_last {
                let list_kind = page.envelope.kind.as_str().into();
                let bookmark = within(self.limits.answer, bookmark(connection, &spec)).await??;
                self.feed.set_facts(MirrorFacts { list_kind, warnings: page.warnings, bookmark });
            }
            self.feed.push(FeedMessage::List(page.chunk));
            if is_last {
                info!(resource = %spec.resource, instance = instance.0, %at, objects, "listed");
                self.plan.on_progress(instance, at);
                return Ok(());
            }
        }
    }

    async fn watch(
        &mut self,
        connection: &Arc<Connection>,
        instance: InstanceIndex,
        after: ResourceVersion,
    ) -> Result<(), ReadError> {
        let spec = self.spec.clone();
        let bounds = self.limits.watch_at_least.as_secs()..self.limits.watch_at_most.as_secs();
        let seconds = u32::try_from(rand::rng().random_range(bounds)).unwrap_or(u32::MAX);
        let opening = Watching::open(connection, &spec, after, seconds);
        let main = match within(self.limits.answer, opening).await? {
            Ok(watching) => watching,
            Err(error) => return self.ended(instance, after, error),
        };
        debug!(resource = %self.spec.resource, instance = instance.0, %after, "watching");
        let mut streams = Streams { main, catch_up: None };
        loop {
            let frontier = self.plan.position().unwrap_or(after);
            tokio::select! {
                biased;
                wanted = self.feed.wanted() => {
                    self.plan.go_back(wanted);
                    return Ok(());
                }
                said = streams.main.next() => match said {
                    Ok(Some(statement)) => self.state(instance, statement),
                    Ok(None) => return Ok(()),
                    Err(error) => return self.ended(instance, frontier, error),
                },
                said = next_of(&mut streams.catch_up) => match said {
                    Ok(Some(statement)) => self.state(instance, statement),
                    // What the second watch could not bring, the first one brings later.
                    Ok(None) | Err(_) => streams.catch_up = None,
                },
                answered = self.asking.next(connection, &self.spec, frontier) => {
                    self.answered(&mut streams, answered?)?;
                }
            }
        }
    }

    fn answered(&self, streams: &mut Streams, answered: Answered) -> Result<(), ReadError> {
        let Answered { revision, frontier, catch_up, .. } = answered;
        if revision < frontier {
            return Err(ReadError::WentBack { revision, frontier });
        }
        if catch_up.is_some() {
            streams.catch_up = catch_up;
        }
        Ok(())
    }

    fn state(&mut self, instance: InstanceIndex, statement: Statement<Change>) {
        if let Some(newest) = statement.events().last() {
            self.memory.on_change(newest);
        }
        let to = statement.to();
        if self.plan.position().is_some_and(|position| to <= position) {
            return;
        }
        self.feed.push(FeedMessage::Statement(statement));
        self.plan.on_progress(instance, to);
    }

    fn ended(
        &mut self,
        instance: InstanceIndex,
        after: ResourceVersion,
        error: WatchError,
    ) -> Result<(), ReadError> {
        if !error.is_expired() {
            return Err(error.into());
        }
        info!(resource = %self.spec.resource, instance = instance.0, %after, "log expired at this instance");
        self.plan.on_expired(instance, after);
        Ok(())
    }
}

/// Upstream's own bookmark of this kind, or a composed one where upstream doesn't know initial events.
async fn bookmark(connection: &Connection, spec: &MirrorSpec) -> Result<BookmarkTemplate, RequestError> {
    let template = super::watch::end_bookmark(connection, spec).await?;
    Ok(template.unwrap_or_else(|| BookmarkTemplate::composed(spec)))
}

/// What the second watch says, if there is one.
async fn next_of(watching: &mut Option<Watching>) -> Result<Option<Statement<Change>>, WatchError> {
    match watching {
        Some(watching) => watching.next().await,
        None => std::future::pending().await,
    }
}

/// The answer, or that none came in time.
async fn within<T>(limit: Duration, answer: impl Future<Output = T>) -> Result<T, ReadError> {
    tokio::time::timeout(limit, answer).await.map_err(|_| ReadError::Silent(limit))
}
