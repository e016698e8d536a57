//! Questions that a feed asks upstream for others: which revision is the newest now; what a scope holds now; a second watch
//! that brings the feed to the present; and a tick, which gives the feed's stream an event to bring. All go over the feed's own
//! connection: progress belongs to an instance (another one may be seconds behind, silently), and a proof from another one
//! says nothing about this feed.
//!
//! Who asks while a question is under way waits for the next one. Its answer was made before they came, so for them it
//! would prove nothing.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tracing::trace;
use weir_core::ResourceVersion;
use weir_core::interest::Scope;
use weir_core::mirror::MirrorSpec;
use weir_upstream::Connection;

use super::pacing::Pacing;
use super::scope::{self, Detail, ScopeContent};
use super::tick::Tick;
use super::verify::newest_revision;
use super::waiting::{Ask, MAX_WAITING, Topic, Waiting};
use super::watch::WatchError;

/// Scopes that are asked for at once; the callers of others are refused and are served when the feed has caught up.
const MAX_SCOPES: usize = 256;
/// Upstream sends a bookmark two seconds before the end of a watch, and none to a watch of two seconds or less: this is the
/// length that gets one soonest.
pub(super) const CATCH_UP_SECONDS: u32 = 3;

/// The callers' end.
#[derive(Clone, Debug)]
pub struct Questions {
    asks: mpsc::Sender<Ask>,
    tick: Option<Arc<Tick>>,
}

/// The feed's end.
pub struct Asking {
    asks: mpsc::Receiver<Ask>,
    waiting: Waiting,
    under_way: FuturesUnordered<UnderWay>,
    /// What is under way, and since when.
    topics: HashMap<Topic, Instant>,
    pacing: Pacing<Topic>,
    tick: Option<Arc<Tick>>,
}

/// What one question brought, for the feed itself.
pub struct Answered {
    topic: Topic,
    /// Upstream's newest revision when it answered; `None` where it was asked for a tick and gave none.
    pub revision: Option<ResourceVersion>,
    /// How far the feed was when the question was sent; an answer below it means that history went back.
    pub frontier: ResourceVersion,
    /// Whether a caller wants the feed to get to the revision soon, and it is not there.
    pub catches_up: bool,
}

type UnderWay = Pin<Box<dyn Future<Output = Result<Answered, WatchError>> + Send>>;

/// A pair of ends, of a mirror that has a tick or none.
pub fn questions(tick: Option<Tick>) -> (Questions, Asking) {
    let (sender, asks) = mpsc::channel(MAX_WAITING);
    let tick = tick.map(Arc::new);
    let questions = Questions { asks: sender, tick: tick.clone() };
    let (waiting, under_way, topics, pacing) = Default::default();
    (questions, Asking { asks, waiting, under_way, topics, pacing, tick })
}

// === impl Questions ===

impl Questions {
    /// Upstream's newest revision, asked for after this call began; `None` where the feed has no connection, lost it, or
    /// too many ask. With `catch_up` the feed also sees to it that it gets there.
    pub async fn newest(&self, catch_up: bool) -> Option<ResourceVersion> {
        let (answer, answered) = oneshot::channel();
        self.asks.try_send(Ask::Newest { answer, catch_up }).ok()?;
        answered.await.ok()
    }

    /// What a scope holds at upstream's newest revision, asked for after this call began; `None` as above, and where the scope
    /// holds too much to be compared.
    pub async fn scope(&self, scope: Scope, detail: Detail) -> Option<Arc<ScopeContent>> {
        let (answer, answered) = oneshot::channel();
        self.asks.try_send(Ask::Scope { answer, scope, detail }).ok()?;
        answered.await.ok()
    }

    /// The revision of a tick that was sent after this call began: once the feed has come there, everything that was
    /// acknowledged before the call has come too. `None` as above, and where no tick can be made.
    pub async fn tick(&self) -> Option<ResourceVersion> {
        let (answer, answered) = oneshot::channel();
        let can_ask = self.can_tick() && self.asks.try_send(Ask::Tick { answer }).is_ok();
        can_ask.then_some(())?;
        answered.await.ok()
    }

    /// Whether a tick is worth asking for: there is to be one, and none has failed of late.
    pub fn can_tick(&self) -> bool {
        self.tick.as_ref().is_some_and(|tick| tick.works())
    }
}

// === impl Asking ===

impl Asking {
    /// Takes callers, asks for them, and returns what came of a question. Dropping the future loses nothing.
    pub async fn next(
        &mut self,
        connection: &Arc<Connection>,
        spec: &Arc<MirrorSpec>,
        frontier: ResourceVersion,
    ) -> Result<Answered, WatchError> {
        loop {
            while let Some((topic, asks)) = self.due() {
                let (connection, spec) = (connection.clone(), spec.clone());
                let tick = self.tick.clone();
                self.ask(Question { topic, connection, spec, frontier, tick }, asks);
            }
            let next_due = self.next_due();
            tokio::select! {
                biased;
                Some(answered) = self.under_way.next() => {
                    let answered = answered?;
                    if let Some(since) = self.topics.remove(&answered.topic) {
                        self.note(&answered, since);
                    }
                    return Ok(answered);
                }
                ask = self.asks.recv() => match ask {
                    Some(ask) => self.waiting.push(ask),
                    None => std::future::pending().await,
                },
                () = until(next_due) => {}
            }
        }
    }

    /// Refuses everyone who waits: the feed has lost its connection.
    pub fn refuse(&mut self) {
        self.waiting.clear();
        self.under_way.clear();
        self.topics.clear();
        while self.asks.try_recv().is_ok() {}
    }

    /// Refuses everyone who comes, until dropped: the feed has no connection to ask over.
    pub async fn refuse_for_now(&mut self) {
        self.refuse();
        while self.asks.recv().await.is_some() {}
        std::future::pending::<()>().await;
    }

    /// A topic that no question is under way about, and those who wait for it.
    fn due(&mut self) -> Option<(Topic, Vec<Ask>)> {
        while let Ok(ask) = self.asks.try_recv() {
            self.waiting.push(ask);
        }
        if !self.tick.as_ref().is_some_and(|tick| tick.works()) {
            self.waiting.take(&Topic::Tick);
        }
        let now = Instant::now();
        loop {
            let is_due = |topic: &&Topic| {
                !self.topics.contains_key(topic) && self.not_before(topic).is_none_or(|due| due <= now)
            };
            let topic = self.waiting.topics().find(is_due)?.clone();
            let asks = self.waiting.take(&topic);
            if !asks.is_empty() {
                return Some((topic, asks));
            }
        }
    }

    /// When the next question may be sent that somebody waits for and that is not under way.
    fn next_due(&self) -> Option<Instant> {
        let waiting = self.waiting.topics().filter(|topic| !self.topics.contains_key(topic));
        // What may be asked at any time would have been, but for the time that passed since.
        let now = Instant::now();
        waiting.map(|topic| self.not_before(topic).unwrap_or(now)).min()
    }

    /// When a question may be sent that is not to be sent at any time. It may be past.
    fn not_before(&self, topic: &Topic) -> Option<Instant> {
        match topic {
            Topic::Newest => self.pacing.of_any(),
            // Nobody shares it with those who ask for other objects, so it need not wait for them.
            topic if topic.is_named() => self.pacing.of_same(topic),
            Topic::Scope(..) => self.pacing.of_scope(topic),
            Topic::Tick => self.tick.as_ref().map(|tick| tick.due()),
        }
    }

    /// Takes note of how long upstream took for an answer. A tick is a write, which it never waits with.
    fn note(&mut self, answered: &Answered, since: Instant) {
        let Some(revision) = answered.revision else { return };
        let topic = &answered.topic;
        trace!(?topic, took = ?since.elapsed(), %revision, "answered");
        match topic {
            Topic::Newest => self.pacing.answered(None, (since, revision)),
            topic if topic.is_named() => self.pacing.left(topic.clone(), since),
            Topic::Scope(..) => self.pacing.answered(Some(topic.clone()), (since, revision)),
            Topic::Tick => {}
        }
    }

    /// Sends one question for everyone who waits for the topic.
    fn ask(&mut self, question: Question, asks: Vec<Ask>) {
        if matches!(question.topic, Topic::Scope(..)) {
            if self.topics.len() >= MAX_SCOPES {
                // Dropping the callers' ends refuses them.
                return;
            }
            if !question.topic.is_named() {
                self.pacing.asked_for_scope();
            }
        }
        self.topics.insert(question.topic.clone(), Instant::now());
        self.under_way.push(Box::pin(question.send(asks)));
    }
}

/// One question under way.
struct Question {
    topic: Topic,
    connection: Arc<Connection>,
    spec: Arc<MirrorSpec>,
    frontier: ResourceVersion,
    tick: Option<Arc<Tick>>,
}

// === impl Question ===

impl Question {
    async fn send(self, asks: Vec<Ask>) -> Result<Answered, WatchError> {
        match &self.topic {
            Topic::Newest => self.newest(asks).await,
            Topic::Scope(scope, detail) => {
                let content = scope::read(&self.connection, &self.spec, (scope, *detail)).await?;
                let (revision, content) = (content.revision(), Arc::new(content));
                for ask in asks {
                    // A caller that has gone needs no answer; a scope that is too large has none.
                    if let (Ask::Scope { answer, .. }, true) = (ask, content.is_whole()) {
                        let _ = answer.send(content.clone());
                    }
                }
                Ok(self.answered(Some(revision)))
            }
            Topic::Tick => Ok(self.tick(asks).await),
        }
    }

    /// One that fails ends nothing: it only serves nobody.
    async fn tick(self, asks: Vec<Ask>) -> Answered {
        let Some(tick) = &self.tick else { return self.answered(None) };
        let revision = tick.write(&self.connection).await;
        for ask in asks {
            if let (Ask::Tick { answer }, Some(revision)) = (ask, revision) {
                let _ = answer.send(revision);
            }
        }
        self.answered(revision)
    }

    async fn newest(self, asks: Vec<Ask>) -> Result<Answered, WatchError> {
        let revision = newest_revision(&self.connection, &self.spec).await?;
        let mut catches_up = false;
        for ask in asks {
            if let Ask::Newest { answer, catch_up } = ask {
                catches_up |= catch_up;
                let _ = answer.send(revision);
            }
        }
        let catches_up = catches_up && revision > self.frontier;
        Ok(Answered { catches_up, ..self.answered(Some(revision)) })
    }

    fn answered(self, revision: Option<ResourceVersion>) -> Answered {
        Answered { topic: self.topic, revision, frontier: self.frontier, catches_up: false }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { asks: _, waiting, under_way, topics, pacing: _, tick } = self;
        f.debug_struct("Asking")
            .field("waiting", waiting)
            .field("under_way", &under_way.len())
            .field("topics", topics)
            .field("tick", tick)
            .finish()
    }
}
