//! What stands and when each question is due, without a clock and without a lock.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Asking, Named, Step};
use crate::auth::caller::{Caller, CallerKey};
use crate::auth::decisions::Question;
use crate::auth::identity::Identity;

/// When a question is asked again whose answer may just have changed: upstream's own authorizer learns of the change when weir
/// does, a little sooner or later, and each instance for itself.
const AGAIN: [Duration; 3] = [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(3)];
/// Whose name is not known is asked about behind those who are named.
pub(super) const BEHIND_NAMED: Duration = Duration::from_millis(1);
/// Of so many turns one is the round's, however much is urgent.
const TURNS: u32 = 4;

/// What stands, and what of it is due.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) asked: HashMap<Question, Asked>,
    pub(super) callers: HashMap<CallerKey, Known>,
    /// Callers of whom nobody has asked yet who they are.
    pub(super) nameless: BTreeSet<CallerKey>,
    pub(super) round: BTreeSet<(Instant, Question)>,
    pub(super) urgent: BTreeSet<(Instant, Question)>,
    /// When somebody's rights last changed.
    pub(super) changed: Option<Instant>,
    turn: u32,
    pub(super) next: u64,
    pub(super) streams: usize,
}

/// A question of answers that stand. Some 300 bytes and those of the review, about 300 more.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) key: CallerKey,
    pub(super) review: Bytes,
    pub(super) namespace: Box<str>,
    /// When upstream last said yes.
    pub(super) answered: Instant,
    pub(super) due: Due,
    /// What to tell that it is over, by being dropped.
    pub(super) streams: HashMap<u64, oneshot::Sender<()>>,
}

/// When a question is asked again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// In its turn.
    Round(Instant),
    /// Before its turn, for the so many-th time.
    Urgent(Instant, usize),
    /// It is being asked; whether its answer may have changed since, and so is not to be believed for long.
    Asking(Option<usize>),
}

/// A caller of answers that stand: some 200 bytes and those of the credential.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) caller: Caller,
    pub(super) identity: Option<Arc<Identity>>,
    pub(super) questions: HashSet<Question>,
}

// === impl State ===

impl State {
    pub(super) fn step(&mut self, now: Instant) -> Step {
        let due = |set: &BTreeSet<(Instant, Question)>| set.first().copied().filter(|(at, _)| *at <= now);
        let (urgent, round) = (due(&self.urgent), due(&self.round));
        let is_rounds = self.turn % TURNS == TURNS - 1;
        let first = if is_rounds { round.or(urgent) } else { urgent };
        let chosen = match first {
            None if self.nameless.is_empty() => round,
            chosen => chosen,
        };
        if chosen.is_some() || !self.nameless.is_empty() {
            self.turn = self.turn.wrapping_add(1);
        }
        if let Some((_, question)) = chosen {
            return self.give_out(question).map_or(Step::Idle, Step::Ask);
        }
        if let Some(key) = self.nameless.pop_first()
            && let Some(known) = self.callers.get(&key)
        {
            return Step::Name(key, known.caller.clone());
        }
        let next = self.urgent.first().into_iter().chain(self.round.first()).map(|(at, _)| *at).min();
        next.map_or(Step::Idle, Step::Wait)
    }

    fn give_out(&mut self, question: Question) -> Option<Asking> {
        self.unschedule(question);
        let asked = self.asked.get_mut(&question)?;
        asked.due = Due::Asking(match asked.due {
            Due::Urgent(_, times) => Some(times + 1),
            Due::Round(_) | Due::Asking(_) => None,
        });
        let (key, review) = (asked.key, asked.review.clone());
        let known = self.callers.get(&key)?;
        let (caller, is_nameless) = (known.caller.clone(), known.identity.is_none());
        Some(Asking { question, key, caller, review, is_nameless })
    }

    /// When a question is asked next that upstream has not said no to.
    pub(super) fn schedule(&mut self, question: Question, round: Instant, now: Instant) {
        self.unschedule(question);
        let Some(asked) = self.asked.get_mut(&question) else { return };
        let times = match asked.due {
            Due::Asking(Some(times)) => AGAIN.get(times).map(|wait| (now + *wait, times)),
            Due::Urgent(at, times) => Some((at, times)),
            Due::Asking(None) | Due::Round(_) => None,
        };
        match times {
            Some((at, times)) => {
                asked.due = Due::Urgent(at, times);
                self.urgent.insert((at, question));
            }
            None => {
                asked.due = Due::Round(round);
                self.round.insert((round, question));
            }
        }
    }

    fn unschedule(&mut self, question: Question) {
        match self.asked.get(&question).map(|asked| asked.due) {
            Some(Due::Round(at)) => drop(self.round.remove(&(at, question))),
            Some(Due::Urgent(at, _)) => drop(self.urgent.remove(&(at, question))),
            Some(Due::Asking(_)) | None => {}
        }
    }

    pub(super) fn hurry(&mut self, named: &Named, now: Instant) -> usize {
        self.changed = Some(now);
        let is_in = |question: &Question| {
            self.asked.get(question).is_some_and(|asked| named.reaches(&asked.namespace))
        };
        let mut questions = Vec::new();
        for known in self.callers.values() {
            let at = match &known.identity {
                Some(identity) if named.names(identity) => now,
                Some(_) => continue,
                None => now + BEHIND_NAMED,
            };
            questions.extend(known.questions.iter().copied().filter(is_in).map(|question| (question, at)));
        }
        for (question, at) in &questions {
            self.unschedule(*question);
            let Some(asked) = self.asked.get_mut(question) else { continue };
            // What is being asked may have been judged before the change.
            asked.due = match asked.due {
                Due::Asking(_) => Due::Asking(Some(0)),
                Due::Round(_) | Due::Urgent(..) => {
                    self.urgent.insert((*at, *question));
                    Due::Urgent(*at, 0)
                }
            };
        }
        questions.len()
    }

    /// Ends all that stands for a caller. How many answers.
    pub(super) fn forget(&mut self, key: CallerKey) -> usize {
        let questions = self.callers.get(&key).map(|known| known.questions.clone()).unwrap_or_default();
        let ended = questions.into_iter().filter_map(|question| self.remove(question));
        ended.map(|asked| asked.streams.len()).sum()
    }

    pub(super) fn remove(&mut self, question: Question) -> Option<Asked> {
        self.unschedule(question);
        let asked = self.asked.remove(&question)?;
        self.streams -= asked.streams.len();
        if let Some(known) = self.callers.get_mut(&asked.key) {
            known.questions.remove(&question);
            if known.questions.is_empty() {
                self.callers.remove(&asked.key);
                self.nameless.remove(&asked.key);
            }
        }
        Some(asked)
    }
}
