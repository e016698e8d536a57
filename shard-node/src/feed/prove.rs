//! Questions that a feed asks upstream for others: which revision is the newest now, and a second watch that brings the
//! feed there. Both go over the feed's own connection: progress belongs to an instance, and a proof from another one says
//! nothing about this feed.
//!
//! Who asks while a question is under way waits for the next one. Its answer was made before they came, so for them it
//! would prove nothing.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use weir_core::ResourceVersion;
use weir_core::mirror::MirrorSpec;
use weir_upstream::Connection;

use super::request::RequestError;
use super::verify::newest_revision;
use super::watch::{WatchError, Watching};

/// Callers that wait to be asked for. Each is a parked request; beyond, they are refused and pass through.
const MAX_WAITING: usize = 4_096;
/// Upstream sends a bookmark to a watch of this length within 0.3-1.3 s, and none to a shorter one.
const CATCH_UP_SECONDS: u32 = 3;

/// One caller.
#[derive(Debug)]
pub struct Ask {
    answer: oneshot::Sender<ResourceVersion>,
    catch_up: bool,
}

/// The callers' end.
#[derive(Clone, Debug)]
pub struct Questions(mpsc::Sender<Ask>);

/// The feed's end.
#[derive(Debug)]
pub struct Asking {
    asks: mpsc::Receiver<Ask>,
    waiting: Vec<Ask>,
}

/// What one question brought.
pub struct Answered {
    /// Upstream's newest revision when it answered.
    pub revision: ResourceVersion,
    /// How far the feed was when the question was sent; an answer below it means that history went back.
    pub frontier: ResourceVersion,
    /// A second watch from there, where a caller wanted the feed to get to the revision soon.
    pub catch_up: Option<Watching>,
}

/// A question under way.
pub type InFlight = Pin<Box<dyn Future<Output = Result<Answered, WatchError>> + Send>>;

/// A pair of ends.
pub fn questions() -> (Questions, Asking) {
    let (sender, asks) = mpsc::channel(MAX_WAITING);
    (Questions(sender), Asking { asks, waiting: Vec::new() })
}

// === impl Questions ===

impl Questions {
    /// Upstream's newest revision, asked for after this call began; `None` where the feed has no connection, lost it, or
    /// too many ask. With `catch_up` the feed also sees to it that it gets there.
    pub async fn newest(&self, catch_up: bool) -> Option<ResourceVersion> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Ask { answer, catch_up }).ok()?;
        answered.await.ok()
    }
}

// === impl Asking ===

impl Asking {
    /// Waits for a caller. Dropping the future loses nobody.
    pub async fn wanted(&mut self) {
        if self.waiting.is_empty() {
            match self.asks.recv().await {
                Some(ask) => self.waiting.push(ask),
                None => std::future::pending().await,
            }
        }
    }

    /// Sends one question for everyone who waits.
    pub fn ask(
        &mut self,
        connection: &Arc<Connection>,
        spec: &Arc<MirrorSpec>,
        frontier: ResourceVersion,
    ) -> InFlight {
        let mut asks = std::mem::take(&mut self.waiting);
        while let Ok(ask) = self.asks.try_recv() {
            asks.push(ask);
        }
        asks.retain(|ask| !ask.answer.is_closed());
        let (connection, spec) = (connection.clone(), spec.clone());
        Box::pin(async move {
            let revision = newest_revision(&connection, &spec).await.map_err(RequestError::into_watch)?;
            let wants_catch_up = revision > frontier && asks.iter().any(|ask| ask.catch_up);
            for ask in asks {
                // A caller that has gone needs no answer.
                let _ = ask.answer.send(revision);
            }
            let catch_up = match wants_catch_up {
                true => Some(Watching::open(&connection, &spec, frontier, CATCH_UP_SECONDS).await?),
                false => None,
            };
            Ok(Answered { revision, frontier, catch_up })
        })
    }

    /// Refuses everyone who waits: the feed has lost its connection.
    pub fn refuse(&mut self) {
        self.waiting.clear();
        while self.asks.try_recv().is_ok() {}
    }
}

impl RequestError {
    fn into_watch(self) -> WatchError {
        WatchError::Request(self)
    }
}
