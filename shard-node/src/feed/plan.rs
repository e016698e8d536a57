//! What a feed does next: which instance it reads, and whether it goes on from its position or lists. Kept apart from the
//! reading so that the rules can be tested without an upstream.
//!
//! A 410 is no reason to list at once: after the restart of one apiserver every older revision is 410 there, while another
//! still has the log. The same (instance, revision) is never asked twice in a row of refusals.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_core::ResourceVersion;

/// The first wait after a failure.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// One of upstream's instances, in the order of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceIndex(pub usize);

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Watch from this position.
    Watch {
        /// At which instance.
        instance: InstanceIndex,
        /// Exclusive start.
        after: ResourceVersion,
    },
    /// List, and watch from there.
    List {
        /// At which instance.
        instance: InstanceIndex,
    },
}

/// Where a feed stands with its upstream.
#[derive(Clone, Debug)]
pub struct Plan {
    instances: usize,
    current: InstanceIndex,
    aim: Aim,
    expired: BTreeSet<(InstanceIndex, ResourceVersion)>,
    failures: u32,
    /// Who has said that there is no such resource, since anybody last served it.
    unserved: BTreeSet<InstanceIndex>,
}

/// What the feed reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// Nothing before a subscriber says what it has.
    Undecided,
    /// A list.
    List,
    /// The log from here on.
    Log(ResourceVersion),
}

// === impl Plan ===

impl Plan {
    /// A feed without content. `first` is where it begins, so that feeds spread over the instances.
    pub fn new(instances: usize, first: usize) -> Self {
        let instances = instances.max(1);
        Self {
            instances,
            current: InstanceIndex(first % instances),
            aim: Aim::Undecided,
            expired: BTreeSet::new(),
            failures: 0,
            unserved: BTreeSet::new(),
        }
    }

    /// The next step; `None` while it is not known where to begin.
    pub fn next(&self) -> Option<Step> {
        let after = match self.aim {
            Aim::Undecided => return None,
            Aim::List => return Some(Step::List { instance: self.current }),
            Aim::Log(after) => after,
        };
        let mut order = (0..self.instances).map(|i| InstanceIndex((self.current.0 + i) % self.instances));
        Some(match order.find(|instance| !self.expired.contains(&(*instance, after))) {
            Some(instance) => Step::Watch { instance, after },
            None => Step::List { instance: self.current },
        })
    }

    /// A feed without content begins with the log, since a subscriber has everything up to `after`.
    pub fn begin_at(&mut self, after: ResourceVersion) {
        self.aim = Aim::Log(after);
    }

    /// A feed without content begins with a list.
    pub fn begin_with_list(&mut self) {
        self.aim = Aim::List;
    }

    /// Content up to `at` was read from `instance`.
    pub fn on_progress(&mut self, instance: InstanceIndex, at: ResourceVersion) {
        self.current = instance;
        if self.aim != Aim::Log(at) {
            self.expired.clear();
        }
        self.aim = Aim::Log(at);
        self.failures = 0;
        self.unserved.clear();
    }

    /// An instance serves the resource.
    pub fn on_served(&mut self) {
        self.unserved.clear();
    }

    /// An instance says that there is no such resource.
    pub fn on_unserved(&mut self, instance: InstanceIndex) {
        self.unserved.insert(instance);
    }

    /// Whether the resource is gone: all instances have failed since one of them served it, and those that answered say so.
    /// One alone may not have heard of the resource yet, and another may still serve it.
    pub fn is_gone(&self) -> bool {
        !self.unserved.is_empty()
            && usize::try_from(self.failures).is_ok_and(|failed| failed >= self.instances)
    }

    /// The instance no longer has the log from `after`.
    pub fn on_expired(&mut self, instance: InstanceIndex, after: ResourceVersion) {
        self.expired.insert((instance, after));
    }

    /// The instance could not be read. Returns how long to wait at most; the caller takes a random part of it.
    pub fn on_failed(&mut self, instance: InstanceIndex) -> Duration {
        self.current = InstanceIndex((instance.0 + 1) % self.instances);
        self.failures = self.failures.saturating_add(1);
        // The first round over the instances costs no more than the first wait each.
        let rounds = self.failures / u32::try_from(self.instances).unwrap_or(1);
        FIRST_WAIT.saturating_mul(1 << rounds.min(12)).min(LONGEST_WAIT)
    }

    /// Upstream's history went back: nothing that was read counts.
    pub fn on_restored(&mut self) {
        self.aim = Aim::Undecided;
        self.expired.clear();
    }

    /// How far the content goes.
    pub fn position(&self) -> Option<ResourceVersion> {
        match self.aim {
            Aim::Log(after) => Some(after),
            Aim::Undecided | Aim::List => None,
        }
    }
}

// === impl Step ===

impl Step {
    /// Where it is done.
    pub fn instance(self) -> InstanceIndex {
        match self {
            Self::Watch { instance, .. } | Self::List { instance } => instance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rv(n: u64) -> ResourceVersion {
        ResourceVersion::new(n)
    }

    fn watch(instance: usize, after: u64) -> Option<Step> {
        Some(Step::Watch { instance: InstanceIndex(instance), after: rv(after) })
    }

    fn list(instance: usize) -> Option<Step> {
        Some(Step::List { instance: InstanceIndex(instance) })
    }

    #[test]
    fn an_expired_position_is_asked_of_every_instance_before_a_list() {
        let mut plan = Plan::new(3, 1);
        plan.begin_with_list();
        assert_eq!(plan.next(), list(1));
        plan.on_progress(InstanceIndex(1), rv(7));
        let mut asked = Vec::new();
        while let Some(Step::Watch { instance, after }) = plan.next() {
            assert_eq!(after, rv(7));
            asked.push(instance.0);
            plan.on_expired(instance, after);
        }
        assert_eq!(asked, [1, 2, 0]);
        assert_eq!(plan.next(), list(1));
        plan.on_progress(InstanceIndex(1), rv(9));
        assert_eq!(plan.next(), watch(1, 9));
    }

    #[test]
    fn a_feed_begins_where_its_subscribers_stand_and_lists_only_if_no_instance_has_the_log() {
        let mut plan = Plan::new(2, 0);
        assert_eq!(plan.next(), None, "nobody has said what it has");
        plan.begin_at(rv(4));
        assert_eq!(plan.next(), watch(0, 4));
        plan.on_expired(InstanceIndex(0), rv(4));
        assert_eq!(plan.next(), watch(1, 4));
        plan.on_expired(InstanceIndex(1), rv(4));
        assert_eq!(plan.next(), list(0));
        plan.on_restored();
        assert_eq!((plan.next(), plan.position()), (None, None), "what they have decides again");
    }

    #[test]
    fn a_failed_instance_is_left_and_waits_grow_to_a_bound() {
        let mut plan = Plan::new(2, 0);
        plan.on_progress(InstanceIndex(0), rv(3));
        let mut waits = Vec::new();
        for _ in 0..40 {
            let Some(Step::Watch { instance, .. }) = plan.next() else {
                panic!("a failure is no reason to list")
            };
            waits.push(plan.on_failed(instance));
        }
        assert_eq!(plan.next(), watch(0, 3));
        assert!(waits.is_sorted() && waits[0] == FIRST_WAIT && waits[39] == LONGEST_WAIT, "{waits:?}");
        plan.on_progress(InstanceIndex(0), rv(4));
        assert_eq!(plan.on_failed(InstanceIndex(0)), FIRST_WAIT);
    }

    #[test]
    fn a_resource_is_gone_when_every_instance_that_answers_says_so() {
        let mut plan = Plan::new(2, 0);
        plan.on_progress(InstanceIndex(0), rv(3));
        let fail = |plan: &mut Plan, instance: usize, is_answer: bool| {
            if is_answer {
                plan.on_unserved(InstanceIndex(instance));
            }
            plan.on_failed(InstanceIndex(instance));
        };
        fail(&mut plan, 0, true);
        assert!(!plan.is_gone(), "the other one has not been asked");
        plan.on_served();
        fail(&mut plan, 1, false);
        assert!(!plan.is_gone(), "nobody says so");
        fail(&mut plan, 0, true);
        assert!(plan.is_gone(), "the other one cannot be asked");
        plan.on_progress(InstanceIndex(1), rv(4));
        assert!(!plan.is_gone());
    }
}
