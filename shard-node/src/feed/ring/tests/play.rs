//! The ring between a reader and subscribers that do what they like: whatever happens, everything that a subscriber is
//! handed leads on from where it is, and when all is quiet everybody has everything.

use proptest::prelude::*;

use super::*;

const SUBSCRIBERS: u64 = 3;
/// Rounds until all is quiet; a play of some hundred steps leaves far less to do.
const MAX_ROUNDS: usize = 2_000;

/// One step, with a number that says how far.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    ReadMain(u64),
    ReadBackfill(u64),
    ReadList,
    /// No instance has the log of the main watch any more.
    LoseLog,
    ExpireBackfill,
    Disconnect,
    Restore(u64),
    PassTime(u64),
    Take(u64),
    SubscribeAgain(u64),
    /// The subscriber has lost everything.
    Empty(u64),
    /// Another feed leads the subscriber on.
    LeadElsewhere(u64),
    Leave(u64),
}

/// A list that is being read.
#[derive(Clone, Copy, Debug)]
struct List {
    id: u64,
    at: u64,
    seq: u32,
    parts: u32,
    /// Whether the main watch needs it.
    is_main: bool,
}

#[derive(Clone, Copy, Debug)]
struct Taker {
    standing: Standing,
    list: Option<(ListId, u32)>,
    is_subscribed: bool,
}

#[derive(Debug)]
struct Play {
    ring: Ring,
    /// Upstream's newest revision, by history.
    revisions: Vec<u64>,
    /// Which of them the feed has verified.
    epoch: usize,
    takers: Vec<Taker>,
    list: Option<List>,
    backfill: Option<u64>,
    must_list: bool,
    lists: u64,
    now: Duration,
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..SUBSCRIBERS;
    prop_oneof![
        4 => Just(Step::Write),
        6 => (1_u64..4).prop_map(Step::ReadMain),
        4 => (1_u64..4).prop_map(Step::ReadBackfill),
        4 => Just(Step::ReadList),
        1 => Just(Step::LoseLog),
        1 => Just(Step::ExpireBackfill),
        1 => Just(Step::Disconnect),
        1 => (0_u64..4).prop_map(Step::Restore),
        1 => (0_u64..12).prop_map(Step::PassTime),
        12 => who().prop_map(Step::Take),
        2 => who().prop_map(Step::SubscribeAgain),
        1 => who().prop_map(Step::Empty),
        2 => who().prop_map(Step::LeadElsewhere),
        1 => who().prop_map(Step::Leave),
    ]
}

impl Play {
    fn new(log_bytes: usize, list_bytes: usize) -> Self {
        let nobody = Taker { standing: NOTHING, list: None, is_subscribed: false };
        Self {
            ring: bounded(log_bytes, list_bytes),
            revisions: vec![5],
            epoch: 0,
            takers: vec![nobody; SUBSCRIBERS as usize],
            list: None,
            backfill: None,
            must_list: false,
            lists: 0,
            now: Duration::ZERO,
        }
    }

    fn revision(&self) -> u64 {
        self.revisions[self.epoch]
    }

    fn newest(&self) -> usize {
        self.revisions.len() - 1
    }

    /// What upstream's log says behind `after`, of which every revision is a change.
    fn said(&self, after: u64, length: u64) -> Statement<Change> {
        let to = self.revision().min(after + length);
        let pod = Pod { padding: 300, ..Pod::new("ns", "a", "u") };
        let changes = (after + 1..=to).map(|at| pod.put(at)).collect();
        Statement::new(SourceId(self.epoch as u64), rv(after), rv(to), changes).unwrap()
    }

    /// One step. False if it had nothing to do.
    fn play(&mut self, step: Step) -> bool {
        match step {
            Step::Write => *self.revisions.last_mut().unwrap() += 1,
            Step::ReadMain(length) => return self.read_main(length),
            Step::ReadBackfill(length) => return self.read_backfill(length),
            Step::ReadList => return self.read_list(),
            Step::LoseLog => self.must_list |= self.ring.position().is_some(),
            Step::ExpireBackfill => {
                if self.backfill.take().is_some() {
                    self.ring.expire_backfill();
                }
            }
            Step::Disconnect => self.disconnect(),
            Step::Restore(back) if self.epoch == self.newest() => {
                self.revisions.push(self.revision().saturating_sub(back).max(1));
            }
            Step::Restore(_) => {}
            Step::PassTime(seconds) => {
                self.now += Duration::from_secs(seconds);
                self.ring.pass_time(self.now);
            }
            Step::Take(who) => return self.take(who),
            Step::SubscribeAgain(who) => self.subscribe(who),
            Step::Empty(who) => {
                let history = self.takers[who as usize].standing.history;
                self.takers[who as usize].standing = Standing::nothing(history);
                self.subscribe(who);
            }
            Step::LeadElsewhere(who) => self.lead_elsewhere(who),
            Step::Leave(who) => {
                self.takers[who as usize].is_subscribed = false;
                self.ring.unsubscribe(SubscriberId(who));
            }
        }
        true
    }

    fn disconnect(&mut self) {
        self.ring.disconnect();
        self.list = None;
        self.backfill = None;
    }

    fn restored(&mut self) {
        self.disconnect();
        self.epoch = self.newest();
        self.must_list = false;
        self.ring.restored(History::new(self.epoch as u64));
    }

    fn read_main(&mut self, length: u64) -> bool {
        let wanted = self.ring.wanted();
        if self.epoch != self.newest() || wanted.history.is_some() {
            self.restored();
            return true;
        }
        if self.list.is_some_and(|list| list.is_main) {
            return self.read_page();
        }
        match (self.ring.position(), wanted.log) {
            (Some(position), _) if self.must_list => {
                self.disconnect();
                self.ring.lost(position);
                self.begin_list(true);
            }
            (Some(position), _) if position.get() < self.revision() => {
                self.ring.push(self.said(position.get(), length));
            }
            (None, Some(after)) => self.ring.begin(after),
            (None, None) if wanted.list => self.begin_list(true),
            (Some(_) | None, _) => return false,
        }
        true
    }

    fn read_backfill(&mut self, length: u64) -> bool {
        if self.ring.position().is_none() || self.epoch != self.newest() {
            return false;
        }
        match (self.backfill, self.ring.wanted().log) {
            (Some(after), _) => {
                let statement = self.said(after, length);
                if !self.ring.has_backfill_room(bytes_of_statement(&statement)) {
                    return false;
                }
                let to = statement.to().get();
                self.backfill = (!self.ring.push_backfill(statement)).then_some(to);
            }
            (None, Some(after)) => {
                self.ring.begin_backfill(after);
                self.backfill = Some(after.get());
            }
            (None, None) => return false,
        }
        true
    }

    fn read_list(&mut self) -> bool {
        match self.list {
            Some(list) if list.is_main => false,
            Some(_) => self.read_page(),
            None if self.ring.position().is_some() && self.ring.wanted().list => {
                self.begin_list(false);
                true
            }
            None => false,
        }
    }

    fn begin_list(&mut self, is_main: bool) {
        self.lists += 1;
        let parts = 1 + u32::try_from(self.lists % 4).unwrap();
        self.list = Some(List { id: self.lists, at: self.revision(), seq: 0, parts, is_main });
        self.ring.begin_list(ListId(self.lists));
    }

    fn read_page(&mut self) -> bool {
        let Some(list) = &mut self.list else { return false };
        let List { id, at, seq, parts, is_main } = *list;
        let is_last = seq + 1 == parts;
        let pod = Pod { padding: 300, ..Pod::new("ns", "a", "u") };
        let part = ListChunk { objects: vec![pod.object(at)], ..chunk((id, at), seq, is_last) };
        if !self.ring.has_list_room(bytes_of(&FeedMessage::List(part.clone()))) {
            return false;
        }
        list.seq += 1;
        self.ring.push_list(part);
        if is_last {
            self.list = None;
        }
        if is_last && is_main {
            self.must_list = false;
            self.ring.begin(rv(at));
        }
        true
    }

    fn subscribe(&mut self, who: u64) {
        let taker = &mut self.takers[who as usize];
        taker.list = None;
        taker.is_subscribed = true;
        self.ring.subscribe(SubscriberId(who), taker.standing);
    }

    /// Another feed knows the newest history and is anywhere in it.
    fn lead_elsewhere(&mut self, who: u64) {
        let (newest, taker) = (self.newest(), &mut self.takers[who as usize]);
        let history = History::new(newest as u64);
        let known = taker.standing.after.filter(|_| taker.standing.history == history);
        let end = self.revisions[newest];
        let reached = known.map_or(end / 2, |at| (at.get() + end).div_ceil(2)).max(1);
        taker.standing = Standing::at(history, rv(reached));
        self.subscribe(who);
    }

    fn take(&mut self, who: u64) -> bool {
        if !self.takers[who as usize].is_subscribed {
            self.subscribe(who);
            return true;
        }
        let next = self.ring.next(SubscriberId(who));
        let taker = &mut self.takers[who as usize];
        let Standing { history, after } = &mut taker.standing;
        match next {
            Next::Nothing => return false,
            Next::Behind => self.subscribe(who),
            Next::Message(message) => match &*message {
                FeedMessage::Restored(newer) => {
                    assert!(*newer > *history, "told once, and only what is news");
                    taker.standing = Standing::nothing(*newer);
                    taker.list = None;
                }
                FeedMessage::Statement(said) => {
                    let position = after.expect("a statement leads nobody on who has nothing");
                    assert_eq!(said.source().0, history.get(), "of the history that the subscriber has");
                    assert!(said.after() <= position && position < said.to(), "{said:?} at {position}");
                    *after = Some(said.to());
                }
                FeedMessage::List(part) => {
                    let expected =
                        taker.list.filter(|(list, _)| *list == part.list).map_or(0, |(_, seq)| seq);
                    assert_eq!(part.seq, expected, "no part of a list is missing");
                    taker.list = Some((part.list, part.seq + 1));
                    if part.is_last {
                        assert!(*after < Some(part.at), "a list that is no news was read in vain");
                        *after = Some(part.at);
                        taker.list = None;
                    }
                }
            },
        }
        true
    }

    /// Everybody goes on until nobody has anything to do.
    fn come_to_rest(&mut self) {
        for _ in 0..MAX_ROUNDS {
            let mut is_news = false;
            for step in [Step::ReadMain(3), Step::ReadBackfill(3), Step::ReadList] {
                is_news |= self.play(step);
            }
            for who in 0..SUBSCRIBERS {
                is_news |= self.take(who);
            }
            is_news |= self.ring.take_wants_more();
            if !is_news {
                return;
            }
        }
        panic!("no rest after {MAX_ROUNDS} rounds: {self:#?}");
    }

    fn judge(&mut self) {
        assert!(self.ring.wanted().is_nothing(), "{:?}", self.ring.wanted());
        for taker in &self.takers {
            let everything = Standing::at(History::new(self.newest() as u64), rv(self.revision()));
            assert_eq!(taker.standing, everything, "{self:#?}");
        }
        for _ in 0..2 {
            self.play(Step::PassTime(20));
        }
        assert_eq!(
            (self.ring.lists.bytes(), self.ring.backfill.bytes()),
            (0, 0),
            "what nobody needs is gone"
        );
    }
}

proptest! {
    #[test]
    fn everybody_is_led_to_everything(
        log_bytes in prop_oneof![Just(1_usize), Just(1_500), Just(1 << 20)],
        list_bytes in prop_oneof![Just(1_usize), Just(1_000), Just(1 << 20)],
        steps in proptest::collection::vec(step(), 0..150),
    ) {
        let mut play = Play::new(log_bytes, list_bytes);
        for step in steps {
            play.play(step);
        }
        play.come_to_rest();
        play.judge();
    }
}
