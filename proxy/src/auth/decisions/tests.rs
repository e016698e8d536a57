//! What is asked of upstream about callers, how long its answers count, and who shares them, in a time that the test makes.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::advance;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Decisions about one question, and how often it was asked.
struct Asking(Decisions, AtomicUsize);

impl Asking {
    fn new() -> Self {
        Self(Decisions::new(DecisionLimits::default(), DecisionMetrics::default()), AtomicUsize::new(0))
    }

    async fn decide(&self, answer: Reviewed) -> Reviewed {
        let review = async move {
            self.1.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            answer
        };
        let question = self.0.question(&("token", "list", "pods"));
        self.0.decide(question, || review.boxed()).await.reviewed
    }

    /// How often a question came to its answer like this.
    fn counted(&self, how: How) -> u64 {
        self.0.metrics.get(how)
    }

    fn times(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_yes_counts_for_seconds_and_a_no_for_one() {
    let asking = Asking::new();
    assert_eq!(asking.decide(Reviewed::Allowed).await, Reviewed::Allowed);
    advance(4 * SECOND).await;
    assert_eq!(asking.decide(Reviewed::Denied).await, Reviewed::Allowed);
    advance(SECOND).await;
    assert_eq!(asking.decide(Reviewed::Denied).await, Reviewed::Denied);
    assert_eq!(asking.decide(Reviewed::Allowed).await, Reviewed::Denied);
    assert_eq!(asking.times(), 2);
    advance(SECOND).await;
    assert_eq!((asking.decide(Reviewed::Allowed).await, asking.times()), (Reviewed::Allowed, 3));
    assert_eq!((asking.counted(How::Asked), asking.counted(How::Remembered)), (3, 2));
}

#[tokio::test]
async fn many_who_ask_the_same_are_one_review() {
    let asking = Asking::new();
    let decided = join_all((0..100).map(|_| asking.decide(Reviewed::Allowed))).await;
    assert!(decided.iter().all(|decided| *decided == Reviewed::Allowed));
    assert_eq!(asking.times(), 1);
    assert_eq!((asking.counted(How::Asked), asking.counted(How::Shared)), (1, 99));
}

#[tokio::test]
async fn a_refusal_of_a_node_is_shared_by_those_who_asked_together_and_forgotten() {
    let asking = Asking::new();
    let decided = join_all((0..10).map(|_| asking.decide(Reviewed::DeniedNow))).await;
    assert!(decided.iter().all(|decided| *decided == Reviewed::DeniedNow));
    assert_eq!(asking.times(), 1);
    assert_eq!((asking.decide(Reviewed::Allowed).await, asking.times()), (Reviewed::Allowed, 2));
}

#[tokio::test(start_paused = true)]
async fn what_upstream_says_unasked_counts_like_any_answer() {
    let asking = Asking::new();
    assert_eq!(asking.decide(Reviewed::Allowed).await, Reviewed::Allowed);
    let question = asking.0.question(&("token", "list", "pods"));
    asking.0.learn(question, Reviewed::DeniedNow).await;
    assert_eq!((asking.decide(Reviewed::Denied).await, asking.times()), (Reviewed::Denied, 2));
    asking.0.learn(question, Reviewed::Allowed).await;
    assert_eq!((asking.decide(Reviewed::Denied).await, asking.times()), (Reviewed::Allowed, 2));
}

#[tokio::test]
async fn a_caller_who_leaves_while_it_asks_leaves_the_question_to_the_next() {
    let asking = Asking::new();
    assert!(asking.decide(Reviewed::Allowed).now_or_never().is_none());
    assert_eq!((asking.decide(Reviewed::Denied).await, asking.times()), (Reviewed::Denied, 2));
}

#[tokio::test(start_paused = true)]
async fn while_upstream_is_gone_its_last_word_counts_for_minutes() {
    let asking = Asking::new();
    asking.decide(Reviewed::Allowed).await;
    advance(30 * SECOND).await;
    for _ in 0..3 {
        assert_eq!(asking.decide(Reviewed::Unreachable).await, Reviewed::Allowed);
    }
    assert_eq!(asking.times(), 2, "nor is it asked again at once");
    assert_eq!((asking.counted(How::Grace), asking.counted(How::Unreachable)), (3, 0));
    advance(270 * SECOND).await;
    assert_eq!(asking.decide(Reviewed::Unreachable).await, Reviewed::Unreachable);
    assert_eq!(asking.times(), 3);
    advance(SECOND).await;
    assert_eq!(asking.decide(Reviewed::Denied).await, Reviewed::Denied);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_is_there_and_does_not_say_has_not_said_yes() {
    let asking = Asking::new();
    asking.decide(Reviewed::Allowed).await;
    advance(5 * SECOND).await;
    assert_eq!(asking.decide(Reviewed::Undecided).await, Reviewed::Undecided);
    assert_eq!((asking.decide(Reviewed::Allowed).await, asking.times()), (Reviewed::Undecided, 2));
}

#[test]
fn questions_that_differ_in_one_part_are_others() {
    let decisions = Decisions::new(DecisionLimits::default(), DecisionMetrics::default());
    let one = decisions.question(&("token", "list", "pods"));
    assert_eq!(one, decisions.question(&("token", "list", "pods")));
    for other in [("tokem", "list", "pods"), ("token", "watch", "pods"), ("token", "lis", "tpods")] {
        assert_ne!(one, decisions.question(&other), "{other:?}");
    }
    assert_ne!(
        one,
        Decisions::new(DecisionLimits::default(), DecisionMetrics::default())
            .question(&("token", "list", "pods"))
    );
}
