//! The tick that a request may be proved fresh by: when it is asked for, and how long a second watch waits for it.
//!
//! It is asked for while the question for upstream's newest revision is still under way. Upstream answers that of a quiet kind only
//! when its own watch has come as far, which is what a tick makes it do at once.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::mirror::Mirror;
use crate::mirror::proofs::Proof;

/// How long a request goes without a tick: what proves itself in this time needs no write.
const AFTER: Duration = Duration::from_millis(10);
/// How long the answer to a tick may be behind its event: what came meanwhile came by the tick if it was written.
const TO_TELL: Duration = Duration::from_millis(5);
/// How long upstream is not asked for a second watch meanwhile: as far as two ticks are apart, and the time that a write takes.
const HEAD_START: Duration = Duration::from_millis(250);

/// The tick of one request.
pub(super) struct Ticking<'a> {
    mirror: &'a Mirror,
    stage: watch::Sender<Stage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unasked,
    Asked,
    Written,
    /// The feed makes none, or takes long.
    Over,
}

// === impl Ticking ===

impl<'a> Ticking<'a> {
    /// Nothing is asked yet; where the feed makes no ticks, nothing will be.
    pub(super) fn of(mirror: &'a Mirror) -> Self {
        let stage = if mirror.feed().can_tick() { Stage::Unasked } else { Stage::Over };
        Self { mirror, stage: watch::Sender::new(stage) }
    }

    /// Asks for a tick, and resolves when the mirror has come to it; never where there is none.
    pub(super) async fn came(&self) {
        if *self.stage.borrow() != Stage::Over {
            sleep(AFTER).await;
            self.stage.send_replace(Stage::Asked);
            if let Some(revision) = self.mirror.feed().tick().await {
                self.stage.send_replace(Stage::Written);
                self.mirror.reached(revision).await;
                self.mirror.proved(revision);
                return;
            }
            self.stage.send_replace(Stage::Over);
        }
        std::future::pending::<()>().await;
    }

    /// Resolves when a second watch is not to wait any longer: at once where there is no tick.
    pub(super) async fn is_over(&self) {
        let mut stage = self.stage.subscribe();
        let over = stage.wait_for(|stage| *stage == Stage::Over);
        if timeout(HEAD_START, over).await.is_err() {
            // One that was written is on its way all the same, and may come before what is asked for now.
            self.stage.send_if_modified(|stage| {
                let is_late = *stage != Stage::Written;
                if is_late {
                    *stage = Stage::Over;
                }
                is_late
            });
        }
    }

    /// What a state is proved by that the mirror came to: the tick, if it was written by then. `came` is [`Ticking::came`], which
    /// may be about to tell.
    pub(super) async fn credit(&self, proof: Proof, came: impl Future<Output = ()>) -> Proof {
        if !matches!(proof, Proof::Revision | Proof::CatchUp) {
            return proof;
        }
        if *self.stage.borrow() == Stage::Asked {
            // Whether it tells is in the stage.
            let _ = timeout(TO_TELL, came).await;
        }
        if *self.stage.borrow() == Stage::Written { Proof::Tick } else { proof }
    }
}
