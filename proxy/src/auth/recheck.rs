//! The task that asks upstream again, for as long as answers stand. It spends a budget and no more, however many watches there
//! are: with many, each question waits longer for its turn.
//!
//! What comes of a question is a matter of [`Standings`]; nothing here decides who may have what. A review that gets no answer
//! is asked again in its turn and ends nothing before its time.

mod budget;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::StatusCode;

use tokio::time::{Instant, sleep_until};
use tracing::debug;

use self::budget::Budget;
use super::Authorizer;
use super::caller::{Caller, CallerKey};
use super::decisions::{Question, Reviewed};
use super::metrics::RecheckMetrics;
use super::standings::{Asking, Lost, Standings, Step};

/// Reviews under way at once. More would only wait at an upstream that is slow.
const MAX_UNDER_WAY: usize = 32;
/// How often those are looked for that upstream has said nothing about for too long: so many times in that time.
const LOOKS: u32 = 20;

/// Asks again.
#[derive(Debug)]
pub struct Rechecks {
    authorizer: Authorizer,
    rate: NonZeroU32,
}

/// A question to upstream.
enum Work {
    /// Whether somebody still may.
    Ask(Asking),
    /// Who somebody is.
    Name(CallerKey, Caller),
}

// === impl Rechecks ===

impl Rechecks {
    /// Reviews for what the authorizer let through, so many a second.
    pub fn new(authorizer: Authorizer, rate: NonZeroU32) -> Self {
        authorizer.rechecks.set_rate(rate);
        Self { authorizer, rate }
    }

    /// Asks until it is dropped.
    pub async fn run(self) {
        let mut budget = Budget::new(self.rate, Instant::now());
        let mut under_way = FuturesUnordered::new();
        let look_every = (self.standings().limits().unanswered / LOOKS).max(Duration::from_millis(100));
        let mut look = tokio::time::interval(look_every);
        loop {
            let wake = if under_way.len() < MAX_UNDER_WAY {
                match self.next(&mut budget) {
                    Ok(work) => {
                        under_way.push(self.work(work));
                        continue;
                    }
                    Err(until) => until,
                }
            } else {
                None
            };
            let woken = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(()) = under_way.next() => {}
                () = self.standings().sooner() => {}
                _ = look.tick() => self.expire(),
                () = woken => {}
            }
        }
    }

    fn standings(&self) -> &Arc<Standings> {
        &self.authorizer.standings
    }

    fn metrics(&self) -> &RecheckMetrics {
        &self.authorizer.rechecks
    }

    /// What to ask next; until when there is nothing, unless something happens.
    fn next(&self, budget: &mut Budget) -> Result<Work, Option<Instant>> {
        let now = Instant::now();
        if let Some(until) = budget.exhausted(now) {
            return Err(Some(until));
        }
        let (work, questions) = match self.standings().step(now) {
            // Who a caller is is another question.
            Step::Ask(asking) if asking.is_nameless => (Work::Ask(asking), 2),
            Step::Ask(asking) => (Work::Ask(asking), 1),
            Step::Name(key, caller) => (Work::Name(key, caller), 1),
            Step::Wait(until) => return Err(Some(until)),
            Step::Idle => return Err(None),
        };
        budget.spend(questions, now);
        Ok(work)
    }

    async fn work(&self, work: Work) {
        match work {
            Work::Ask(asking) => self.ask(asking).await,
            Work::Name(key, caller) => self.name(key, &caller).await,
        }
    }

    async fn name(&self, key: CallerKey, caller: &Caller) {
        if let Some(identity) = self.authorizer.who(key, caller).await {
            self.standings().identified(key, identity);
        }
    }

    async fn ask(&self, asking: Asking) {
        let Asking { question, key, caller, review, is_nameless } = asking;
        let answer = self.authorizer.ask(&caller, review).await;
        let reviewed = match &answer {
            Ok(answer) => super::review::judge(answer),
            Err(reviewed) => *reviewed,
        };
        self.metrics().asked(reviewed);
        self.learn(question, reviewed).await;
        if answer.is_ok_and(|answer| answer.status == StatusCode::UNAUTHORIZED) {
            return self.ended(self.standings().unknown(key), Lost::Denied);
        }
        let (ended, lost) = self.standings().answered(question, reviewed, Instant::now());
        self.ended(ended, lost);
        if is_nameless && reviewed == Reviewed::Allowed {
            self.name(key, &caller).await;
        }
    }

    /// New requests profit by the answers. A no is theirs to hear from upstream.
    async fn learn(&self, question: Question, reviewed: Reviewed) {
        let reviewed = match reviewed {
            Reviewed::Denied => Reviewed::DeniedNow,
            other => other,
        };
        self.authorizer.decisions.learn(question, reviewed).await;
    }

    fn expire(&self) {
        self.ended(self.standings().expire(Instant::now()), Lost::Unanswered);
    }

    fn ended(&self, streams: usize, lost: Lost) {
        if streams > 0 {
            debug!(streams, ?lost, "rights were lost");
            self.metrics().ended(streams, lost);
        }
    }
}
