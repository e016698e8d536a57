//! One session: what a proxy says is handed to the mirrors' nodes, and what they say is carried back in flushes. One task
//! does both, so that nothing is read from a peer that takes nothing: its registrations stay those that it has, and what
//! waits for it stays within their credit. Stores never wait for it.

mod carried;
mod flush;
mod pace;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use tonic::{Status, Streaming};
use tracing::debug;
use weir_core::GroupVersionResource;
use weir_core::message::ToNode as NodeMessage;
use weir_proto::session::{FromNode, MirrorNumber, Names, Open, Registration, ToNode, Unmirrored};
use weir_proto::{Encoded, ProtocolError, Spoken, wire};

use self::carried::{Carried, OpenError};
use self::pace::{News, Pace};
use super::Serving;
use super::out::{Lost, Out};
use crate::host::Hosted;
use crate::node::SessionId;
use crate::node::cell::Wake;

/// How long a peer may take to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// Mirrors of one session, with those that are being attached. A cluster has some hundreds of kinds; each costs the session
/// less than 1 KiB.
const MAX_MIRRORS: usize = 4_096;

/// One proxy's session.
struct Session {
    id: SessionId,
    serving: Arc<Serving>,
    out: Out<Encoded<wire::FromNode>>,
    /// Notified when a node has said something.
    wake: Wake,
    mirrors: BTreeMap<MirrorNumber, Carried>,
    attaching: FuturesUnordered<BoxFuture<'static, Attaching>>,
    /// What is in `attaching`.
    awaited: HashSet<GroupVersionResource>,
    pace: Pace,
}

/// A mirror that was asked for, and what became of it.
type Attaching = (GroupVersionResource, Result<Arc<Hosted>, Unmirrored>);

/// Why a session ends before the peer ends it.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error("the session was broken off")]
    Broken(#[source] Status),
    #[error("a message of the peer")]
    Protocol(#[from] ProtocolError),
    #[error("no hello within {} s", HELLO_LIMIT.as_secs())]
    Silent,
    #[error("hello comes first")]
    NoHello,
    #[error("hello comes once")]
    HelloAgain,
    #[error("more than {MAX_MIRRORS} mirrors on one session")]
    TooManyMirrors,
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Serves a session until either end ends it or the process stops. However it ends, its registrations end with it.
pub(super) async fn run(
    serving: Arc<Serving>,
    mut incoming: Streaming<wire::ToNode>,
    out: Out<Encoded<wire::FromNode>>,
) {
    let mut session = Session::new(serving.clone(), out);
    serving.metrics.sessions.inc();
    let ended = session.serve(&mut incoming).await;
    serving.metrics.sessions.dec();
    let (id, out) = session.leave();
    match ended {
        Ok(()) => debug!(session = id.0, "session ended"),
        Err(ended) => {
            debug!(session = id.0, error = &ended as &dyn std::error::Error, "session ended");
            out.end(ended.into()).await;
        }
    }
}

// === impl Session ===

impl Session {
    fn new(serving: Arc<Serving>, out: Out<Encoded<wire::FromNode>>) -> Self {
        Self {
            id: serving.session_id(),
            serving,
            out,
            wake: Wake { now: Arc::default(), later: Arc::default() },
            mirrors: BTreeMap::new(),
            attaching: FuturesUnordered::new(),
            awaited: HashSet::new(),
            pace: Pace::new(Instant::now()),
        }
    }

    /// Ends every registration; what is left is the way to say why.
    fn leave(self) -> (SessionId, Out<Encoded<wire::FromNode>>) {
        (self.id, self.out)
    }

    async fn serve(&mut self, incoming: &mut Streaming<wire::ToNode>) -> Result<(), Ended> {
        if !self.greet(incoming).await? {
            return Ok(());
        }
        loop {
            if self.pace.is_due(Instant::now()) {
                self.flush().await?;
            }
            tokio::select! {
                biased;
                () = self.out.stopping() => return Err(Lost::Stopping.into()),
                () = self.out.gone() => return Ok(()),
                () = self.wake.now.notified(), if self.pace.news() < News::Awaited => self.pace.hear(News::Awaited),
                () = self.wake.later.notified(), if self.pace.news() < News::Frontier => self.pace.hear(News::Frontier),
                Some((resource, attached)) = self.attaching.next() => self.attached(&resource, attached).await?,
                () = tokio::time::sleep_until(self.pace.due()) => {}
                message = incoming.message() => match message.map_err(Ended::Broken)? {
                    Some(message) => self.on_message(message.try_into()?)?,
                    None => return Ok(()),
                },
            }
        }
    }

    /// Whether there is a session; false when the peer left before.
    async fn greet(&mut self, incoming: &mut Streaming<wire::ToNode>) -> Result<bool, Ended> {
        let message = tokio::select! {
            biased;
            () = self.out.stopping() => return Err(Lost::Stopping.into()),
            () = self.out.gone() => return Ok(false),
            message = tokio::time::timeout(HELLO_LIMIT, incoming.message()) => message,
        };
        let message = message.map_err(|_| Ended::Silent)?.map_err(Ended::Broken)?;
        let Some(message) = message else { return Ok(false) };
        let ToNode::Hello(theirs) = message.try_into()? else { return Err(Ended::NoHello) };
        let protocol = Spoken::OURS.agree(theirs)?;
        let slots = self.serving.mirrors.slots();
        self.say(&FromNode::Welcome { protocol, slots }).await?;
        Ok(true)
    }

    fn on_message(&mut self, message: ToNode) -> Result<(), Ended> {
        match message {
            ToNode::Hello(_) => return Err(Ended::HelloAgain),
            ToNode::Attach(resource) => self.attach(resource)?,
            ToNode::Detach(mirror) => drop(self.mirrors.remove(&mirror)),
            ToNode::Open(open) => self.open(open)?,
            ToNode::Close(registration) => self.hand(registration, NodeMessage::Close(registration.id)),
            ToNode::Credit(registration, more) => {
                self.hand(registration, NodeMessage::Credit(registration.id, more));
            }
            ToNode::Names(names) => self.change(names)?,
            ToNode::Reach(mirror, at) => {
                if let Some(carried) = self.mirrors.get(&mirror) {
                    carried.reach(at);
                }
            }
        }
        Ok(())
    }

    /// What is said of a mirror that the session does not carry crossed the news of its end.
    fn hand(&self, registration: Registration, message: NodeMessage) {
        if let Some(carried) = self.mirrors.get(&registration.mirror) {
            carried.hand(message);
        }
    }

    fn open(&self, open: Open) -> Result<(), Ended> {
        match self.mirrors.get(&open.registration.mirror) {
            Some(carried) => Ok(carried.open(open)?),
            None => Ok(()),
        }
    }

    fn change(&self, names: Names) -> Result<(), Ended> {
        match self.mirrors.get(&names.registration.mirror) {
            Some(carried) => Ok(carried.change(names)?),
            None => Ok(()),
        }
    }

    /// Asks for a mirror, which may take long; meanwhile the session goes on. One that is there or asked for already is
    /// not asked for again.
    fn attach(&mut self, resource: GroupVersionResource) -> Result<(), Ended> {
        let is_carried = self.mirrors.values().any(|carried| *carried.resource() == resource);
        if is_carried || self.awaited.contains(&resource) {
            return Ok(());
        }
        if self.mirrors.len() + self.awaited.len() >= MAX_MIRRORS {
            return Err(Ended::TooManyMirrors);
        }
        self.awaited.insert(resource.clone());
        let serving = self.serving.clone();
        let attaching = async move {
            let attached = serving.mirrors.attach(&resource).await;
            (resource, attached)
        };
        self.attaching.push(attaching.boxed());
        Ok(())
    }

    async fn attached(
        &mut self,
        resource: &GroupVersionResource,
        attached: Result<Arc<Hosted>, Unmirrored>,
    ) -> Result<(), Ended> {
        self.awaited.remove(resource);
        match attached {
            Err(reason) => self.say(&FromNode::Unmirrored { mirror: resource.clone(), reason }).await,
            Ok(hosted) => {
                // Its first words wait in the outbox until the next flush, behind this.
                let (carried, attached) = Carried::new(hosted, self.id, &self.wake);
                self.mirrors.insert(attached.mirror, carried);
                self.say(&FromNode::Attached(attached)).await
            }
        }
    }

    /// Says everything that the nodes have said; nothing at all is said too, as a sign of life.
    async fn flush(&mut self) -> Result<(), Ended> {
        let now = Instant::now();
        let looks = self.pace.begin(now);
        if looks.at_floors {
            self.end_mirrors().await?;
        }
        let mut parts = Vec::new();
        let mut learned = Vec::new();
        for (number, carried) in &mut self.mirrors {
            learned.extend(carried.learned().map(|facts| FromNode::Learned(*number, facts)));
            parts.extend(carried.said(looks.at_floors).into_iter().map(|said| (*number, said)));
        }
        for learned in learned {
            self.say(&learned).await?;
        }
        // What it was woken for may have gone with the flush before.
        if parts.is_empty() && !looks.is_beat {
            return Ok(());
        }
        self.pace.spoke(now);
        let is_beat = parts.is_empty();
        for message in flush::messages(&parts) {
            let message = Encoded::Message(message);
            let metrics = &self.serving.metrics;
            metrics.flush_bytes.inc_by(message.size() as u64);
            if is_beat {
                metrics.heartbeats.inc();
            } else {
                metrics.flushes.inc();
            }
            self.out.send(message).await?;
        }
        Ok(())
    }

    /// Tells of mirrors that this process has no longer.
    async fn end_mirrors(&mut self) -> Result<(), Ended> {
        let mirrors = &self.serving.mirrors;
        let is_gone = |carried: &Carried| {
            mirrors.hosted(carried.resource()).is_none_or(|hosted| hosted.number != carried.number())
        };
        let gone: Vec<_> =
            self.mirrors.values().filter(|carried| is_gone(carried)).map(Carried::number).collect();
        for number in gone {
            let Some(carried) = self.mirrors.remove(&number) else { continue };
            let mirror = carried.resource().clone();
            drop(carried);
            self.say(&FromNode::Unmirrored { mirror, reason: Unmirrored::NotServed }).await?;
        }
        Ok(())
    }

    async fn say(&mut self, message: &FromNode) -> Result<(), Ended> {
        Ok(self.out.send(Encoded::Message(message.into())).await?)
    }
}

// === impl Ended ===

impl From<Ended> for Status {
    fn from(ended: Ended) -> Self {
        let message = ended.to_string();
        match ended {
            Ended::Lost(lost) => lost.into(),
            Ended::Broken(status) => status,
            Ended::Protocol(error) => error.into(),
            Ended::Silent => Self::deadline_exceeded(message),
            Ended::NoHello | Ended::HelloAgain => Self::invalid_argument(message),
            Ended::TooManyMirrors => Self::resource_exhausted(message),
            Ended::Open(error) => error.into(),
        }
    }
}
