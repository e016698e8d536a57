//! What goes beside the main watch on the same connection: the watch that catches up, a backfill for subscribers that are
//! behind the ring, a list for those that have nothing, and the question whether upstream has come to where a subscriber
//! already is. One of each at a time; none holds up the main watch, and none that fails ends it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};
use weir_core::message::{Change, ListId};
use weir_core::mirror::MirrorSpec;
use weir_core::statement::Statement;
use weir_core::{History, ResourceVersion};
use weir_upstream::Connection;

use super::failure::{ReadError, within};
use super::handle::FeedHandle;
use super::list::{Listed, WholeList};
use super::prove::CATCH_UP_SECONDS;
use super::ring::{self, Ring, Wanted};
use super::verify::newest_revision;
use super::watch::Watching;

/// The wait after something beside the main watch came to nothing.
const PAUSE: Duration = Duration::from_secs(1);

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, ReadError>> + Send>>;

/// What goes beside the main watch.
pub(super) struct Beside {
    connection: Arc<Connection>,
    spec: Arc<MirrorSpec>,
    feed: Arc<FeedHandle>,
    /// How long upstream may take for an answer.
    answer: Duration,
    catch_up: Option<CatchUp>,
    backfill: Option<Backfill>,
    list: Option<Answer<Listed>>,
    ahead: Option<Answer<Ahead>>,
    /// Nothing is started before.
    not_before: Instant,
}

/// A watch that brings late subscribers to the main watch. It asks for a short time, since only the end of a watch
/// brings a bookmark soon where nothing happens; what is then still lacking is begun again.
struct Backfill {
    opening: Option<Answer<Watching>>,
    open: Option<Watching>,
    /// What was said and has no room yet.
    waiting: Option<Statement<Change>>,
    has_said: bool,
}

/// A watch that brings the main watch to the present, which it is told of about a second after it was begun.
struct CatchUp {
    opening: Option<Answer<Watching>>,
    open: Option<Watching>,
    /// Whether it has had its bookmark: what is wanted later needs another one.
    has_bookmark: bool,
    /// Up to where somebody wants to be brought.
    wanted: ResourceVersion,
}

/// Upstream's newest revision, asked since a subscriber was ahead of the feed.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    subscriber: ResourceVersion,
    revision: ResourceVersion,
}

/// What the reader has to know of.
pub(super) enum Turn {
    /// The second watch said something new.
    Said(Statement<Change>),
    /// A subscriber knows of a history that the feed has missed.
    History(History),
}

// === impl Beside ===

impl Beside {
    /// Nothing yet, on this connection.
    pub(super) fn new(
        connection: Arc<Connection>,
        spec: Arc<MirrorSpec>,
        feed: Arc<FeedHandle>,
        answer: Duration,
    ) -> Self {
        Self {
            connection,
            spec,
            feed,
            answer,
            catch_up: None,
            backfill: None,
            list: None,
            ahead: None,
            not_before: Instant::now(),
        }
    }

    /// The list or log that the main watch needs comes first: what goes beside it is given up and wanted again later.
    pub(super) fn clear(&mut self) {
        self.catch_up = None;
        self.backfill = None;
        self.list = None;
        self.ahead = None;
        self.feed.change(Ring::disconnect);
    }

    /// A second watch catches up from now on. One whose bookmark is still to come may be told of what was written since too, so
    /// it goes on: begun again for everyone who asks, it would never come to its bookmark.
    pub(super) fn catch_up(&mut self, after: ResourceVersion, wanted: ResourceVersion) {
        if let Some(catch_up) = self.catch_up.as_mut().filter(|catch_up| !catch_up.has_bookmark) {
            catch_up.wanted = catch_up.wanted.max(wanted);
            return;
        }
        let (connection, spec, answer) = (self.connection.clone(), self.spec.clone(), self.answer);
        let opening = Box::pin(async move {
            let opening = Watching::open(&connection, &spec, after, CATCH_UP_SECONDS);
            Ok(within(answer, opening).await??)
        });
        self.catch_up = Some(CatchUp { opening: Some(opening), open: None, has_bookmark: false, wanted });
    }

    /// The second watch has said something. Where its bookmark is not enough, there is another one.
    fn on_caught_up(&mut self, said: &Statement<Change>) {
        let Some(catch_up) = self.catch_up.as_mut().filter(|_| said.events().is_empty()) else { return };
        let had = std::mem::replace(&mut catch_up.has_bookmark, true);
        let (reached, wanted) = (said.to(), catch_up.wanted);
        if !had && reached < wanted {
            self.catch_up(reached, wanted);
        }
    }

    /// Goes on with everything until the reader has to know of something. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Turn, ReadError> {
        loop {
            let busy = Busy {
                backfill: self.backfill.is_some(),
                list: self.list.is_some(),
                ahead: self.ahead.is_some(),
            };
            // Not biased: each has its turn, and none of them waits for long.
            tokio::select! {
                wanted = wanted(&self.feed, busy, self.not_before) => {
                    if let Some(history) = wanted.history {
                        return Ok(Turn::History(history));
                    }
                    self.start(wanted);
                }
                said = next_of(&mut self.catch_up) => match said {
                    Ok(Some(statement)) => {
                        self.on_caught_up(&statement);
                        return Ok(Turn::Said(statement));
                    }
                    // What the second watch could not bring, the main one brings later.
                    Ok(None) | Err(_) => self.catch_up = None,
                },
                said = next_of_backfill(&mut self.backfill, &self.feed) => self.on_backfill(said),
                listed = answer_of(&mut self.list) => self.on_list(&listed),
                answered = answer_of(&mut self.ahead) => self.on_ahead(answered)?,
            }
        }
    }

    fn start(&mut self, wanted: Wanted) {
        let Wanted { history: _, log, list, ahead } = wanted;
        if let (Some(after), None) = (log, &self.backfill) {
            self.start_backfill(after);
        }
        if list && self.list.is_none() {
            self.start_list();
        }
        if let (Some(subscriber), None) = (ahead, &self.ahead) {
            let (connection, spec, answer) = (self.connection.clone(), self.spec.clone(), self.answer);
            self.ahead = Some(Box::pin(async move {
                let revision = within(answer, newest_revision(&connection, &spec)).await??;
                Ok(Ahead { subscriber, revision })
            }));
        }
    }

    fn start_backfill(&mut self, after: ResourceVersion) {
        debug!(resource = %self.spec.resource, %after, "backfilling for late subscribers");
        self.feed.change(|ring| ring.begin_backfill(after));
        self.feed.counters().backfills.inc();
        let (connection, spec, answer) = (self.connection.clone(), self.spec.clone(), self.answer);
        let opening = Box::pin(async move {
            let opening = Watching::open(&connection, &spec, after, CATCH_UP_SECONDS);
            Ok(within(answer, opening).await??)
        });
        self.backfill = Some(Backfill { opening: Some(opening), open: None, waiting: None, has_said: false });
    }

    fn on_backfill(&mut self, said: Result<Option<Statement<Change>>, ReadError>) {
        let Some(backfill) = &mut self.backfill else { return };
        match said {
            Ok(Some(statement)) => {
                backfill.has_said |= statement.to() > statement.after();
                if self.feed.change(|ring| ring.push_backfill(statement)) {
                    self.backfill = None;
                }
                return;
            }
            Ok(None) if backfill.has_said => self.feed.change(Ring::end_backfill),
            Ok(None) => self.rest(Ring::end_backfill),
            Err(error) if error.is_expired() => {
                info!(resource = %self.spec.resource, "log of a late subscriber expired at this instance");
                self.feed.change(Ring::expire_backfill);
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                warn!(resource = %self.spec.resource, error, "backfill broke off");
                self.rest(Ring::end_backfill);
            }
        }
        self.backfill = None;
    }

    fn start_list(&mut self) {
        let id = ListId(rand::random());
        self.feed.change(|ring| ring.begin_list(id));
        self.feed.counters().late_lists.inc();
        let list = WholeList {
            connection: self.connection.clone(),
            spec: self.spec.clone(),
            feed: self.feed.clone(),
            answer: self.answer,
        };
        self.list = Some(Box::pin(list.read(id, |_| {})));
    }

    fn on_list(&mut self, listed: &Result<Listed, ReadError>) {
        self.list = None;
        match listed {
            Ok(Listed { at, objects }) => {
                info!(resource = %self.spec.resource, %at, objects, "listed for late subscribers");
            }
            Err(error) => {
                let error: &dyn std::error::Error = error;
                warn!(resource = %self.spec.resource, error, "list for late subscribers broke off");
                self.rest(Ring::give_up_list);
            }
        }
    }

    fn on_ahead(&mut self, answered: Result<Ahead, ReadError>) -> Result<(), ReadError> {
        self.ahead = None;
        let Ahead { subscriber, revision } = match answered {
            Ok(answered) => answered,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                warn!(resource = %self.spec.resource, error, "question about a subscriber's position failed");
                self.rest(|_| {});
                return Ok(());
            }
        };
        if revision < subscriber {
            return Err(ReadError::WentBack { revision, frontier: subscriber });
        }
        self.feed.change(|ring| ring.vouch(revision));
        Ok(())
    }

    /// Gives up, and waits before anything is begun.
    fn rest(&mut self, give_up: impl FnOnce(&mut Ring)) {
        self.feed.change(give_up);
        self.not_before = Instant::now() + PAUSE;
    }
}

/// What goes on already.
#[derive(Clone, Copy, Debug)]
struct Busy {
    backfill: bool,
    list: bool,
    ahead: bool,
}

// === impl Busy ===

impl Busy {
    fn leaves_something(self, wanted: &Wanted) -> bool {
        let Wanted { history, log, list, ahead } = *wanted;
        history.is_some()
            || (log.is_some() && !self.backfill)
            || (list && !self.list)
            || (ahead.is_some() && !self.ahead)
    }
}

async fn wanted(feed: &FeedHandle, busy: Busy, not_before: Instant) -> Wanted {
    tokio::time::sleep_until(not_before).await;
    feed.wanted(|wanted| busy.leaves_something(wanted)).await
}

/// What the second watch says, if there is one.
async fn next_of(catch_up: &mut Option<CatchUp>) -> Result<Option<Statement<Change>>, ReadError> {
    let Some(CatchUp { opening, open, .. }) = catch_up else { return std::future::pending().await };
    if let Some(answer) = opening {
        *open = Some(answer.await?);
        *opening = None;
    }
    let Some(watching) = open else { return Ok(None) };
    Ok(watching.next().await?)
}

async fn next_of_backfill(
    backfill: &mut Option<Backfill>,
    feed: &FeedHandle,
) -> Result<Option<Statement<Change>>, ReadError> {
    let Some(Backfill { opening, open, waiting, has_said: _ }) = backfill else {
        return std::future::pending().await;
    };
    if let Some(answer) = opening {
        *open = Some(answer.await?);
        *opening = None;
    }
    let Some(watching) = open else { return std::future::pending().await };
    if waiting.is_none() {
        *waiting = watching.next().await?;
    }
    let Some(statement) = waiting else { return Ok(None) };
    feed.backfill_room(ring::bytes_of_statement(statement)).await;
    Ok(waiting.take())
}

async fn answer_of<T>(answer: &mut Option<Answer<T>>) -> Result<T, ReadError> {
    match answer {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}
