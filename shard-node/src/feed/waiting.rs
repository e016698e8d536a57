//! Callers that wait to be asked for: by what they ask, those first whose question has been waited for longest.

use std::sync::Arc;

use tokio::sync::oneshot;
use weir_core::ResourceVersion;
use weir_core::interest::Scope;

use super::scope::{Detail, ScopeContent};

/// Callers that wait to be asked for. Each is a parked request; beyond, they are refused and pass through.
pub(super) const MAX_WAITING: usize = 4_096;

/// What can be asked, one question of each at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    Newest,
    Scope(Scope, Detail),
    Tick,
}

/// One caller.
#[derive(Debug)]
pub(super) enum Ask {
    Newest { answer: oneshot::Sender<ResourceVersion>, catch_up: bool },
    Scope { answer: oneshot::Sender<Arc<ScopeContent>>, scope: Scope, detail: Detail },
    Tick { answer: oneshot::Sender<ResourceVersion> },
}

/// All of them. There are hundreds of callers at most times, and of topics a few.
#[derive(Debug, Default)]
pub(super) struct Waiting(Vec<(Topic, Vec<Ask>)>);

// === impl Topic ===

impl Topic {
    /// Whether it is about one object by its name.
    pub(super) fn is_named(&self) -> bool {
        matches!(self, Self::Scope(scope, _) if scope.name.is_some())
    }
}

// === impl Ask ===

impl Ask {
    fn is_about(&self, topic: &Topic) -> bool {
        match (self, topic) {
            (Self::Newest { .. }, Topic::Newest) | (Self::Tick { .. }, Topic::Tick) => true,
            (Self::Scope { scope, detail, .. }, Topic::Scope(other, of_other)) => {
                scope == other && detail == of_other
            }
            _ => false,
        }
    }

    fn topic(&self) -> Topic {
        match self {
            Self::Newest { .. } => Topic::Newest,
            Self::Scope { scope, detail, .. } => Topic::Scope(scope.clone(), *detail),
            Self::Tick { .. } => Topic::Tick,
        }
    }

    fn is_gone(&self) -> bool {
        match self {
            Self::Newest { answer, .. } | Self::Tick { answer } => answer.is_closed(),
            Self::Scope { answer, .. } => answer.is_closed(),
        }
    }
}

// === impl Waiting ===

impl Waiting {
    /// One more; beyond the limit those who have gone leave, and if none has, this one is refused.
    pub(super) fn push(&mut self, ask: Ask) {
        if self.len() >= MAX_WAITING {
            self.0.iter_mut().for_each(|(_, asks)| asks.retain(|ask| !ask.is_gone()));
            self.0.retain(|(_, asks)| !asks.is_empty());
            if self.len() >= MAX_WAITING {
                return;
            }
        }
        match self.0.iter_mut().find(|(topic, _)| ask.is_about(topic)) {
            Some((_, asks)) => asks.push(ask),
            None => self.0.push((ask.topic(), vec![ask])),
        }
    }

    fn len(&self) -> usize {
        self.0.iter().map(|(_, asks)| asks.len()).sum()
    }

    /// What is waited for.
    pub(super) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.0.iter().map(|(topic, _)| topic)
    }

    /// Takes those out who still wait for a topic.
    pub(super) fn take(&mut self, topic: &Topic) -> Vec<Ask> {
        let at = self.0.iter().position(|(other, _)| other == topic);
        let mut asks = at.map_or_else(Vec::new, |at| self.0.remove(at).1);
        asks.retain(|ask| !ask.is_gone());
        asks
    }

    /// Dropping the callers' ends refuses them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newest() -> (Ask, oneshot::Receiver<ResourceVersion>) {
        let (answer, answered) = oneshot::channel();
        (Ask::Newest { answer, catch_up: false }, answered)
    }

    fn scope(name: &str) -> (Ask, oneshot::Receiver<Arc<ScopeContent>>) {
        let (answer, answered) = oneshot::channel();
        let scope = Scope { namespace: None, name: Some(name.into()) };
        (Ask::Scope { answer, scope, detail: Detail::Metadata }, answered)
    }

    #[test]
    fn callers_share_a_topic_and_topics_keep_their_order() {
        let mut waiting = Waiting::default();
        let (first, _a) = scope("b");
        let (second, _b) = newest();
        let (third, _c) = scope("b");
        let (fourth, _d) = scope("a");
        [first, second, third, fourth].into_iter().for_each(|ask| waiting.push(ask));
        let topics: Vec<Topic> = waiting.topics().cloned().collect();
        assert_eq!(topics.len(), 3);
        assert!(topics[0].is_named() && topics[1] == Topic::Newest);
        assert_eq!(waiting.take(&topics[0]).len(), 2);
        assert_eq!(waiting.topics().cloned().collect::<Vec<_>>(), topics[1..]);
        assert!(waiting.take(&topics[0]).is_empty());
    }

    #[test]
    fn no_more_wait_than_there_is_room_for_and_who_has_gone_makes_room() {
        let mut waiting = Waiting::default();
        let mut answers: Vec<_> = (0..MAX_WAITING)
            .map(|_| newest())
            .map(|(ask, answered)| {
                waiting.push(ask);
                answered
            })
            .collect();
        let (ask, mut refused) = newest();
        waiting.push(ask);
        assert_eq!(refused.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        answers.truncate(MAX_WAITING - 1);
        let (ask, answered) = newest();
        waiting.push(ask);
        assert_eq!(waiting.take(&Topic::Newest).len(), MAX_WAITING);
        drop((answers, answered));
    }

    #[test]
    fn who_has_gone_is_not_asked_for() {
        let mut waiting = Waiting::default();
        let (ask, answered) = newest();
        waiting.push(ask);
        drop(answered);
        assert!(waiting.take(&Topic::Newest).is_empty());
        assert_eq!(waiting.topics().count(), 0);
    }
}
