//! A session with a node from its beginning to its end, and the next one after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::oneshot;
use tonic::Streaming;
use tracing::{debug, info, warn};
use weir_core::SlotSet;
use weir_core::object::ObjectSchema;
use weir_daemon::peer::DialError;
use weir_proto::limits::MAX_MESSAGE_BYTES;
use weir_proto::session::{FromNode, ToNode};
use weir_proto::wire::shard_client::ShardClient;
use weir_proto::{Encoded, ProtocolError, Spoken, wire};

use super::Peer;
use super::outgoing::Outgoing;

/// Waits between two tries to reach a node.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How long a node may take to welcome a session.
const WELCOME_LIMIT: Duration = Duration::from_secs(5);

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The node cannot be reached.
    #[error("connect")]
    Dial(#[from] DialError),
    /// The node refused or broke the session.
    #[error("session")]
    Broken(#[from] tonic::Status),
    /// What it says cannot be understood.
    #[error("message of the node")]
    Protocol(#[from] ProtocolError),
    /// It did not welcome the session in time.
    #[error("no welcome within {WELCOME_LIMIT:?}")]
    NoWelcome,
    /// It ended the session.
    #[error("the node has ended the session")]
    Ended,
    /// It said nothing while others went on.
    #[error("left")]
    Left,
}

/// As long as it lives, the node may be spoken to. Dropping what a node says ends a session on this side only: the node
/// would keep it, with all its registrations, until what is said to it ends too.
type Speaking = oneshot::Sender<()>;

// === impl Peer ===

impl Peer {
    /// Keeps a session with the node until dropped, or until it is neither named nor there.
    pub(in crate::peers) async fn run(self: Arc<Self>) {
        let mut wait = FIRST_WAIT;
        loop {
            let was_up = AtomicBool::new(false);
            let ended = self.session(&was_up).await;
            self.down();
            if was_up.load(Ordering::Relaxed) {
                self.lost.fetch_add(1, Ordering::Relaxed);
                wait = FIRST_WAIT;
                warn!(node = %self.address, error = &ended as &dyn std::error::Error, "session lost");
            } else {
                debug!(node = %self.address, error = &ended as &dyn std::error::Error, "no session");
            }
            if self.is_gone() {
                return;
            }
            let part = rand::random_range(0.5..1.0);
            tokio::time::sleep(wait.mul_f64(part)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn session(self: &Arc<Self>, was_up: &AtomicBool) -> SessionError {
        let welcomed = tokio::time::timeout(WELCOME_LIMIT, self.begin()).await;
        let (mut incoming, slots, _speaking) = match welcomed {
            Ok(Ok(begun)) => begun,
            Ok(Err(error)) => return error,
            Err(_) => return SessionError::NoWelcome,
        };
        was_up.store(true, Ordering::Relaxed);
        info!(node = %self.address, slots = slots.len(), "session");
        loop {
            tokio::select! {
                biased;
                () = self.leave.notified() => return SessionError::Left,
                message = incoming.message() => match message {
                    Ok(Some(message)) => {
                        self.beats.fetch_add(1, Ordering::Relaxed);
                        if let Err(error) = self.hear(message, slots) {
                            return error.into();
                        }
                    }
                    Ok(None) => return SessionError::Ended,
                    Err(status) => return status.into(),
                }
            }
        }
    }

    /// Connects, greets, and names the mirrors.
    async fn begin(&self) -> Result<(Streaming<Encoded<wire::FromNode>>, SlotSet, Speaking), SessionError> {
        let channel = self.dialer.connect(self.address.as_str()).await?;
        let mut client = ShardClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let outgoing = Arc::new(Outgoing::default());
        outgoing.push(&ToNode::Hello(Spoken::OURS));
        let (speaking, silent) = oneshot::channel();
        let said = stream::unfold(outgoing.clone(), |said| async move { Some((said.next().await, said)) });
        let mut incoming = client.session(said.take_until(silent)).await?.into_inner();
        let first = incoming.message().await?.ok_or(SessionError::Ended)?;
        let FromNode::Welcome { slots, .. } = FromNode::read(first.open()?, &ObjectSchema::bare())? else {
            return Err(ProtocolError::Missing("welcome").into());
        };
        self.beats.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.outgoing = Some(outgoing);
        let resources: Vec<_> = state.mirrors.keys().cloned().collect();
        for resource in resources {
            state.say(&ToNode::Attach(resource));
        }
        drop(state);
        self.up.send_replace(Some(slots));
        Ok((incoming, slots, speaking))
    }
}
