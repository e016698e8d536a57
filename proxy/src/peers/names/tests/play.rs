//! Random conversations, once with registrations that stand alone and once with name sets: each registration is told the same,
//! or, where messages take their time, something that is as true.

use std::sync::Arc;

use proptest::prelude::*;

use super::line::{KEYS, Line, Told, World, by_name, interest, object};
use super::*;

#[derive(Clone, Debug)]
enum Act {
    /// By name: a key, and how it is spelled.
    Open {
        key: usize,
        spelling: usize,
        slots: usize,
        credit: u32,
    },
    OpenOther {
        interest: usize,
        credit: u32,
    },
    Close(usize),
    Credit(usize, u32),
    Change(Vec<(usize, bool)>),
    List,
    Restore,
    Lose,
    /// So many messages arrive at the node, and so many of the node's.
    Carry(usize, usize),
}

/// A registration that was opened, and what it is for.
struct Opened {
    id: OpenId,
    interest: Arc<Interest>,
    slots: SlotSet,
    credit: u32,
}

/// A conversation.
#[derive(Default)]
struct Play {
    world: World,
    opened: Vec<Opened>,
}

fn act() -> impl Strategy<Value = Act> {
    let change = proptest::collection::vec((0..KEYS.len(), proptest::bool::weighted(0.7)), 0..5);
    prop_oneof![
        6 => (0..KEYS.len(), 0..3_usize, 0..3_usize, 0..6_u32)
            .prop_map(|(key, spelling, slots, credit)| Act::Open { key, spelling, slots, credit }),
        1 => (0..4_usize, 0..6_u32).prop_map(|(interest, credit)| Act::OpenOther { interest, credit }),
        3 => any::<usize>().prop_map(Act::Close),
        3 => (any::<usize>(), 1..4_u32).prop_map(|(which, more)| Act::Credit(which, more)),
        6 => change.prop_map(Act::Change),
        1 => proptest::bool::weighted(0.6).prop_map(|is_list| if is_list { Act::List } else { Act::Restore }),
        1 => Just(Act::Lose),
        6 => (0..4_usize, 0..4_usize).prop_map(|(to, from)| Act::Carry(to, from)),
    ]
}

// === impl Play ===

impl Play {
    fn act(&mut self, act: &Act, lines: &mut [&mut Line]) {
        match act {
            Act::Open { key, spelling, slots, credit } => {
                let slots = [SlotSet::ALL, SlotSet::of_shard(0, 2), SlotSet::of_shard(1, 2)][*slots];
                self.open((by_name(*key, *spelling), slots), *credit, lines);
            }
            Act::OpenOther { interest: number, credit } => {
                self.open((Arc::new(interest(*number)), SlotSet::ALL), *credit, lines);
            }
            Act::Close(which) => {
                let one = self.pick(*which);
                one.into_iter().for_each(|one| lines.iter_mut().for_each(|line| line.close(one)));
            }
            Act::Credit(which, more) => self.credit(*which, *more, lines),
            Act::Change(changes) => self.world.change(lines, changes),
            Act::List => self.world.list(lines),
            Act::Restore => self.world.restore(lines),
            Act::Lose => lines.iter_mut().for_each(|line| line.lose()),
            Act::Carry(to, from) => {
                for line in lines {
                    (0..*to).for_each(|_| _ = line.reach_node());
                    (0..*from).for_each(|_| _ = line.reach_merges());
                }
            }
        }
    }

    fn open(&mut self, (interest, slots): (Arc<Interest>, SlotSet), credit: u32, lines: &mut [&mut Line]) {
        let id = OpenId(self.opened.len() as u64);
        lines.iter_mut().for_each(|line| line.open(id, (interest.clone(), slots), credit));
        self.opened.push(Opened { id, interest, slots, credit });
    }

    fn credit(&mut self, which: usize, more: u32, lines: &mut [&mut Line]) {
        let Some(id) = self.pick(which) else { return };
        let is_given = lines.iter_mut().map(|line| line.credit(id, more)).filter(|given| *given).count() > 0;
        let opened = self.opened.iter_mut().find(|opened| opened.id == id && is_given);
        opened.into_iter().for_each(|opened| opened.credit += more);
    }

    /// One of the last that were opened.
    fn pick(&self, which: usize) -> Option<OpenId> {
        let last: Vec<_> = self.opened.iter().rev().take(8).map(|opened| opened.id).collect();
        (!last.is_empty()).then(|| last[which % last.len()])
    }

    /// What a registration was told is what happened, from where it was live on, and no more than it had credit for.
    fn judge(&self, opened: &Opened, told: &[Told]) -> Result<(), TestCaseError> {
        let Some((first, rest)) = told.split_first() else { return Ok(()) };
        let Told::Live(at) = first else {
            prop_assert!(matches!(first, Told::Restored) && rest.is_empty(), "{:?}", told);
            return Ok(());
        };
        let (mut events, mut until) = (Vec::new(), *at);
        for (index, what) in rest.iter().enumerate() {
            let is_last = index + 1 == rest.len();
            match what {
                Told::Event(at, kind) => {
                    events.push((*at, *kind));
                    until = *at;
                }
                Told::UpTo(to) => {
                    prop_assert!(*to >= until, "{:?}", told);
                    until = *to;
                }
                Told::Left(at) => {
                    prop_assert!(is_last && *at >= until, "{:?}", told);
                    until = *at;
                }
                Told::TooOld | Told::Restored => prop_assert!(is_last, "{:?}", told),
                Told::Live(_) | Told::NotMine => prop_assert!(false, "{:?}", told),
            }
        }
        prop_assert!(events.len() <= opened.credit as usize, "more than there was credit for");
        let is_seen = |(rv, key, _): &&(u64, usize, EventKind)| {
            let object = object(*key, *rv);
            let is_mine = opened.slots.contains(object.slot()) && opened.interest.matches(&object);
            at < rv && *rv <= until && is_mine
        };
        let happened = self.world.log.iter().filter(is_seen).map(|(rv, _, kind)| (*rv, *kind));
        prop_assert_eq!(events, happened.collect::<Vec<_>>(), "{:?} from {} to {}", opened.id, at, until);
        Ok(())
    }

    /// All arrived: who is open is live, and has heard of everything.
    fn judge_end(&self, line: &Line) -> Result<(), TestCaseError> {
        for opened in &self.opened {
            let told = line.told(opened.id.0);
            self.judge(opened, told)?;
            if line.is_open(opened.id) {
                let is_all = match told.last() {
                    Some(Told::UpTo(at) | Told::Event(at, _) | Told::Live(at)) => *at == self.world.at(),
                    _ => false,
                };
                prop_assert!(is_all, "{:?} was told {:?}", opened.id, told);
            }
        }
        Ok(())
    }
}

/// The same, except that more may have been said before the end: a node says events to a set that it would not say to one of
/// its registrations for want of credit, and they count for all others.
fn compare(alone: &[Told], sets: &[Told]) -> Result<(), TestCaseError> {
    let end = |told: &[Told]| match told {
        [.., Told::UpTo(_), Told::Left(at)] => (told.len() - 2, Some(*at)),
        [.., Told::Left(at)] => (told.len() - 1, Some(*at)),
        _ => (told.len(), None),
    };
    let ((is, left), (as_set, left_by_set)) = (end(alone), end(sets));
    prop_assert_eq!(&alone[..is], &sets[..as_set]);
    prop_assert!(left.is_some() == left_by_set.is_some() && left <= left_by_set, "{:?}, {:?}", alone, sets);
    Ok(())
}

proptest! {
    /// Where every message arrives at once, each registration is told the same with sets and without.
    #[test]
    fn without_delay_each_is_told_the_same(acts in proptest::collection::vec(act(), 0..80)) {
        let (mut alone, mut sets) = (Line::alone(), Line::with_sets(SET_CREDIT));
        let mut play = Play::default();
        for act in [Act::List].iter().chain(&acts).chain([&Act::Change(Vec::new())]) {
            play.act(act, &mut [&mut alone, &mut sets]);
            alone.settle();
            sets.settle();
            for Opened { id: OpenId(id), .. } in &play.opened {
                compare(alone.told(*id), sets.told(*id))?;
            }
            let others = play.opened.iter().filter(|one| key_of(&one.interest, true).is_none());
            let others = others.filter(|one| alone.is_open(one.id)).count();
            prop_assert!(sets.interests() <= others + 3, "one registration for each of the three sets of slots");
        }
        play.judge_end(&alone)?;
        play.judge_end(&sets)?;
        for line in [&mut alone, &mut sets] {
            play.opened.iter().for_each(|one| line.close(one.id));
            line.settle();
            prop_assert_eq!(line.interests(), 0, "nothing is left over");
        }
    }

    /// Where messages take their time and sets have little credit, each registration is told the truth, and in the end all of
    /// it.
    #[test]
    fn with_delay_each_is_told_the_truth(credit in 1..6_u32, acts in proptest::collection::vec(act(), 0..80)) {
        let (mut alone, mut sets) = (Line::alone(), Line::with_sets(Credit(credit)));
        let mut play = Play::default();
        for act in [Act::List].iter().chain(&acts) {
            play.act(act, &mut [&mut alone, &mut sets]);
            for opened in &play.opened {
                play.judge(opened, sets.told(opened.id.0))?;
            }
        }
        alone.settle();
        sets.settle();
        play.act(&Act::Change(Vec::new()), &mut [&mut alone, &mut sets]);
        for line in [&mut alone, &mut sets] {
            line.settle();
            play.judge_end(line)?;
            play.opened.iter().for_each(|one| line.close(one.id));
            line.settle();
            prop_assert_eq!(line.interests(), 0, "nothing is left over");
        }
    }
}
