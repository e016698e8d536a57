//! Which question comes next, what ends with an answer, and whom a change brings forward, in a time that the test makes.

use std::task::Waker;

use http::HeaderValue;

use super::*;
use crate::auth::decisions::{DecisionLimits, Decisions};
use crate::auth::metrics::DecisionMetrics;

const SECOND: Duration = Duration::from_secs(1);

/// Answers that stand, a clock, and whoever makes questions.
struct Play {
    standings: Arc<Standings>,
    decisions: Decisions,
    now: Instant,
}

/// Who shows this token.
fn caller(token: &str) -> Caller {
    Caller::Token(HeaderValue::from_str(&format!("Bearer {token}")).unwrap())
}

// === impl Play ===

impl Play {
    fn new() -> Self {
        let decisions = Decisions::new(DecisionLimits::default(), DecisionMetrics::default());
        let standings = Arc::new(Standings::new(StandingLimits::default()));
        Self { standings, decisions, now: Instant::now() }
    }

    /// Somebody's watch in a namespace, just allowed.
    fn watch(&self, token: &str, namespace: &str) -> Standing {
        let caller = caller(token);
        let question = self.decisions.question(&(token, namespace));
        let review = Bytes::from(format!("{token} {namespace}"));
        let key = self.decisions.caller(&caller);
        self.standings.add((question, self.now), (key, &caller), (|| review, namespace))
    }

    fn is(&self, token: &str, name: &str, group: &str) {
        let key = self.decisions.caller(&caller(token));
        let identity =
            Identity { username: name.to_owned(), groups: vec![group.to_owned()], ..Identity::default() };
        self.standings.identified(key, Arc::new(identity));
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// The next question.
    fn asks(&self) -> Option<Asking> {
        loop {
            match self.standings.step(self.now) {
                Step::Ask(asking) => return Some(asking),
                Step::Name(..) => {}
                Step::Wait(_) | Step::Idle => return None,
            }
        }
    }

    /// All that is to be asked now, each answered with this.
    fn answers(&self, reviewed: Reviewed) -> Vec<String> {
        let mut asked = Vec::new();
        while let Some(asking) = self.asks() {
            asked.push(String::from_utf8(asking.review.to_vec()).unwrap());
            self.standings.answered(asking.question, reviewed, self.now);
        }
        asked
    }

    fn counts(&self) -> (usize, usize, usize, usize) {
        let Counts { streams, questions, callers, urgent } = self.standings.counts();
        (streams, questions, callers, urgent)
    }
}

fn is_lost(standing: &mut Standing) -> bool {
    standing.poll_lost(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn named(user: &str, namespace: Option<&str>) -> Named {
    Named { subjects: HashSet::from([Subject::User(user.into())]), namespace: namespace.map(Into::into) }
}

#[test]
fn many_watches_of_one_question_are_asked_about_once_a_round() {
    let mut play = Play::new();
    let mut watches: Vec<_> = (0..100).map(|_| play.watch("bob", "harbor")).collect();
    assert_eq!(play.counts(), (100, 1, 1, 0));
    assert!(play.asks().is_none(), "upstream has just said so");
    play.pass(5 * SECOND);
    assert_eq!(play.answers(Reviewed::Allowed), ["bob harbor"]);
    assert!(!watches.iter_mut().any(is_lost));
    play.pass(4 * SECOND);
    assert!(play.asks().is_none());
    play.pass(SECOND);
    assert_eq!(play.answers(Reviewed::Denied), ["bob harbor"]);
    assert!(watches.iter_mut().all(is_lost));
    assert_eq!(play.counts(), (0, 0, 0, 0));
}

#[test]
fn nothing_of_a_caller_goes_on_whom_upstream_does_not_know_any_more() {
    let play = Play::new();
    let mut bobs = [play.watch("bob", "a"), play.watch("bob", "a"), play.watch("bob", "b")];
    let mut other = play.watch("eve", "a");
    assert_eq!(play.standings.unknown(play.decisions.caller(&caller("bob"))), 3);
    assert!(bobs.iter_mut().all(is_lost) && !is_lost(&mut other));
    assert_eq!(play.counts(), (1, 1, 1, 0));
}

#[test]
fn a_yes_from_before_a_change_is_asked_about_at_once() {
    let mut play = Play::new();
    play.standings.changed(&named("somebody", None), play.now);
    let _before = play.watch("bob", "a");
    for wait in [Duration::ZERO, SECOND / 2, 3 * SECOND] {
        play.pass(wait);
        assert_eq!(play.answers(Reviewed::Allowed), ["bob a"], "{wait:?}");
    }
    play.pass(5 * SECOND);
    let _after = play.watch("bob", "b");
    assert_eq!(play.answers(Reviewed::Allowed), ["bob a"], "the round only");
}

#[test]
fn what_ends_by_itself_is_not_asked_about_any_more() {
    let mut play = Play::new();
    let (first, second, other) = (play.watch("bob", "a"), play.watch("bob", "a"), play.watch("bob", "b"));
    drop(first);
    assert_eq!(play.counts(), (2, 2, 1, 0));
    drop(second);
    assert_eq!(play.counts(), (1, 1, 1, 0));
    play.pass(5 * SECOND);
    let asking = play.asks().unwrap();
    assert_eq!(&*asking.review, b"bob b");
    drop(other);
    assert_eq!(play.standings.answered(asking.question, Reviewed::Denied, play.now).0, 0);
    assert_eq!(play.counts(), (0, 0, 0, 0));
    assert!(matches!(play.standings.step(play.now), Step::Idle));
}

#[test]
fn the_round_is_in_the_order_in_which_upstream_was_last_asked() {
    let mut play = Play::new();
    let mut watches = Vec::new();
    for name in ["a", "b", "c"] {
        watches.push(play.watch(name, ""));
        play.pass(SECOND);
    }
    play.pass(2 * SECOND);
    assert_eq!(play.answers(Reviewed::Allowed), ["a "]);
    play.pass(5 * SECOND);
    assert_eq!(play.answers(Reviewed::Allowed), ["b ", "c ", "a "]);
}

#[test]
fn a_change_names_those_to_ask_about_first_and_they_are_asked_about_three_times() {
    let mut play = Play::new();
    let _others: Vec<_> = (0..50).map(|number| play.watch(&format!("other-{number}"), "harbor")).collect();
    (0..50).for_each(|number| play.is(&format!("other-{number}"), "other", "others"));
    let (_bob, _elsewhere) = (play.watch("bob", "harbor"), play.watch("bob", "yard"));
    play.is("bob", "bob", "devs");
    play.pass(SECOND);
    assert_eq!(play.standings.changed(&named("bob", Some("harbor")), play.now), 1);
    assert_eq!(play.answers(Reviewed::Allowed), ["bob harbor"]);
    play.pass(SECOND / 2);
    assert_eq!(play.answers(Reviewed::Allowed), ["bob harbor"], "upstream may not have known yet");
    play.pass(3 * SECOND);
    assert_eq!(play.answers(Reviewed::Unreachable), ["bob harbor"]);
    let group = Named { subjects: HashSet::from([Subject::Group("others".into())]), namespace: None };
    assert_eq!(play.standings.changed(&group, play.now), 50);
}

#[test]
fn of_whom_nobody_knows_the_name_may_be_named() {
    let mut play = Play::new();
    let _bob = play.watch("bob", "harbor");
    let _eve = play.watch("eve", "harbor");
    play.is("eve", "eve", "");
    play.pass(SECOND);
    assert_eq!(play.standings.changed(&named("eve", None), play.now), 2);
    assert_eq!(&*play.asks().unwrap().review, b"eve harbor", "who is named comes first");
    assert!(play.asks().is_none());
    play.pass(state::BEHIND_NAMED);
    assert!(play.asks().unwrap().is_nameless);
}

#[test]
fn who_comes_new_is_asked_for_their_name_at_once_and_once() {
    let play = Play::new();
    let watches: Vec<_> = ["a", "b"].into_iter().map(|namespace| play.watch("bob", namespace)).collect();
    assert!(matches!(play.standings.step(play.now), Step::Name(..)));
    assert!(matches!(play.standings.step(play.now), Step::Wait(_)));
    let _eve = play.watch("eve", "a");
    drop(watches);
    assert!(matches!(play.standings.step(play.now), Step::Name(..)));
    assert!(matches!(play.standings.step(play.now), Step::Wait(_)));
}

#[test]
fn a_change_while_a_question_is_asked_has_it_asked_again() {
    let mut play = Play::new();
    let _bob = play.watch("bob", "harbor");
    play.pass(5 * SECOND);
    let asking = play.asks().unwrap();
    assert_eq!(play.standings.changed(&named("bob", None), play.now), 1);
    assert!(play.asks().is_none(), "one at a time");
    play.standings.answered(asking.question, Reviewed::Allowed, play.now);
    assert_eq!(play.answers(Reviewed::Allowed), ["bob harbor"]);
}

#[test]
fn however_much_is_urgent_the_round_has_its_turns() {
    let mut play = Play::new();
    let _urgent: Vec<_> = (0..8).map(|number| play.watch(&format!("urgent-{number}"), "")).collect();
    (0..8).for_each(|number| play.is(&format!("urgent-{number}"), "bob", ""));
    let _other = play.watch("other", "");
    play.is("other", "eve", "");
    play.pass(5 * SECOND);
    play.standings.changed(&named("bob", None), play.now);
    let first: Vec<_> = (0..4).map(|_| play.asks().unwrap().review).collect();
    assert_eq!(first.iter().filter(|review| **review == "other ").count(), 1, "{first:?}");
}

#[test]
fn without_an_answer_they_go_on_for_an_hour() {
    let mut play = Play::new();
    let mut bob = play.watch("bob", "harbor");
    for _ in 0..719 {
        play.pass(5 * SECOND);
        assert_eq!(play.answers(Reviewed::Unreachable).len(), 1);
        assert!(!is_lost(&mut bob));
        assert_eq!(play.standings.expire(play.now), 0);
    }
    play.pass(5 * SECOND);
    let asking = play.asks().unwrap();
    let answered = play.standings.answered(asking.question, Reviewed::Undecided, play.now);
    assert_eq!((answered, is_lost(&mut bob)), ((1, Lost::Unanswered), true));
    // Whose turn does not come ends too.
    let mut bob = play.watch("bob", "harbor");
    play.pass(3_600 * SECOND);
    assert_eq!((play.standings.expire(play.now), is_lost(&mut bob)), (1, true));
}
