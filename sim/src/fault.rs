//! What can go wrong, on request or by a plan that counts events.
//!
//! Two kinds: a change of state (an instance lags, the log is compacted) takes effect when it is made; a rule waits for
//! the request or stream that it fits. Nothing here looks at a clock, so an order of faults repeats.

use std::collections::VecDeque;

use weir_core::ResourceVersion;

use crate::catalog::ResourceId;
use crate::instance::Pace;
use crate::json::Node;
use crate::seed::Seed;

/// One instance, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub usize);

/// One thing that goes wrong.
#[derive(Debug, Clone)]
pub enum Fault {
    /// An instance follows the log at another pace.
    Pace(InstanceId, Pace),
    /// All streams of an instance end cleanly.
    EndStreams(InstanceId),
    /// All streams of an instance break.
    CutStreams(InstanceId),
    /// An instance starts anew: all streams break, all older revisions are 410 for watches.
    Restart(InstanceId),
    /// An instance's watch history of a collection is overwritten up to the present.
    ForgetHistory(InstanceId, ResourceId),
    /// The next event of a collection is missing from the watches of an instance.
    LoseNext(InstanceId, ResourceId),
    /// Revisions below the log's present become unreadable.
    Compact,
    /// A copy of the log is kept.
    Backup,
    /// The last kept copy becomes the log, and all instances start anew.
    Restore,
    /// The objects of a custom resource get a default value where they lack it, at the same revisions; its watches
    /// end and their history is gone.
    AddDefault {
        /// The custom resource.
        resource: ResourceId,
        /// The keys that lead to the value.
        path: Vec<String>,
        /// The value.
        value: Node,
    },
    /// Something that waits for a request to an instance.
    Rule(InstanceId, Rule),
    /// An instance accepts requests and says nothing, or goes on.
    Freeze(InstanceId, Frozen),
    /// The watches of a collection say nothing at an instance, whatever it knows, or go on.
    Mute(InstanceId, ResourceId, Frozen),
    /// Bodies of an instance flow at most at this rate; `None` lifts it.
    Throttle(InstanceId, Fits, Option<u32>),
}

/// Whether an instance stands still as a stopped process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frozen {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// Which requests a rule fits.
#[derive(Debug, Clone, Default)]
pub struct Fits {
    /// Only this verb, as access rules name it (`list`, `watch`, `get`, `create` …).
    pub verb: Option<&'static str>,
    /// Only this collection.
    pub resource: Option<ResourceId>,
}

/// A fault for requests and streams to come.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Which.
    pub fits: Fits,
    /// How many of them.
    pub times: u32,
    /// What happens to them.
    pub effect: Effect,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The request is answered with an error of this code (401, 429, 500 …).
    Refuse(u16),
    /// The request is answered as by an instance whose cache of the collection is still being made.
    NotReady,
    /// A watch's connection breaks after so many events.
    CutAfter(u32),
    /// A watch ends cleanly after so many events.
    EndAfter(u32),
    /// The body of a list or get breaks off after so many bytes.
    TruncateAt(usize),
}

/// The rules in force at one instance.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    pub(crate) lose_next: Vec<ResourceId>,
    pub(crate) is_frozen: bool,
    pub(crate) muted: Vec<ResourceId>,
    throttled: Option<(Fits, u32)>,
}

/// Faults in order, each due when the cluster has seen so many events.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    due: VecDeque<(u64, Fault)>,
}

/// What a random plan is made of.
#[derive(Debug, Clone)]
pub struct PlanShape {
    /// How many instances there are.
    pub instances: usize,
    /// The collections that faults may name.
    pub resources: Vec<ResourceId>,
    /// Up to which event.
    pub events: u64,
    /// How many faults.
    pub faults: usize,
}

// === impl Fits ===

impl Fits {
    /// Every request for a collection.
    pub fn resource(resource: ResourceId) -> Self {
        Self { verb: None, resource: Some(resource) }
    }

    /// Every request of a verb.
    pub fn verb(verb: &'static str) -> Self {
        Self { verb: Some(verb), resource: None }
    }

    /// Every request of a verb for a collection.
    pub fn both(verb: &'static str, resource: ResourceId) -> Self {
        Self { verb: Some(verb), resource: Some(resource) }
    }

    fn covers(&self, verb: &str, resource: Option<ResourceId>) -> bool {
        self.verb.is_none_or(|own| own == verb) && (self.resource.is_none() || self.resource == resource)
    }
}

// === impl Rules ===

impl Rules {
    pub(crate) fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub(crate) fn throttle(&mut self, fits: Fits, bytes_per_second: Option<u32>) {
        self.throttled = bytes_per_second.map(|rate| (fits, rate));
    }

    /// How many bytes of an answer flow in a second, if not all at once.
    pub(crate) fn bytes_per_second(&self, (verb, resource): (&str, Option<ResourceId>)) -> Option<u32> {
        self.throttled.as_ref().filter(|(fits, _)| fits.covers(verb, resource)).map(|(_, rate)| *rate)
    }

    /// The first effect that `of` accepts among the rules that fit; it is used up by one.
    pub(crate) fn take<T>(
        &mut self,
        (verb, resource): (&str, Option<ResourceId>),
        of: impl Fn(Effect) -> Option<T>,
    ) -> Option<T> {
        let fitting = |rule: &&mut Rule| rule.fits.covers(verb, resource) && of(rule.effect).is_some();
        let rule = self.rules.iter_mut().find(fitting)?;
        rule.times = rule.times.saturating_sub(1);
        let taken = of(rule.effect);
        self.rules.retain(|rule| rule.times > 0);
        taken
    }
}

// === impl FaultPlan ===

impl FaultPlan {
    /// A plan of faults with the number of events after which each is due.
    pub fn new(faults: impl IntoIterator<Item = (u64, Fault)>) -> Self {
        let mut due: Vec<_> = faults.into_iter().collect();
        due.sort_by_key(|(at, _)| *at);
        Self { due: due.into() }
    }

    /// A plan that a seed determines. It never loses events: that is a fault which no client can survive.
    pub fn random(seed: &mut Seed, shape: &PlanShape) -> Self {
        let faults = (0..shape.faults).filter_map(|_| {
            let at = seed.below(usize::try_from(shape.events).unwrap_or(usize::MAX)) as u64;
            random_fault(seed, shape).map(|fault| (at, fault))
        });
        Self::new(faults)
    }

    /// The next fault that is due when the cluster has seen so many events.
    pub(crate) fn next_due(&mut self, events: u64) -> Option<Fault> {
        self.due.front().filter(|(at, _)| *at <= events)?;
        self.due.pop_front().map(|(_, fault)| fault)
    }

    /// How many faults are still to come.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether none is to come.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

fn random_fault(seed: &mut Seed, shape: &PlanShape) -> Option<Fault> {
    let instance = InstanceId(seed.below(shape.instances));
    let resource = *seed.pick(&shape.resources)?;
    let few = u32::try_from(seed.below(20)).unwrap_or(0);
    let rule = |verb, effect| {
        Some(Fault::Rule(instance, Rule { fits: Fits::both(verb, resource), times: 1 + few % 3, effect }))
    };
    match seed.below(13) {
        0 => Some(Fault::Pace(instance, Pace::Behind(u64::from(few)))),
        1 => Some(Fault::Pace(instance, Pace::Current)),
        2 => Some(Fault::EndStreams(instance)),
        3 => Some(Fault::Restart(instance)),
        4 => Some(Fault::ForgetHistory(instance, resource)),
        5 => Some(Fault::Compact),
        6 => rule("watch", Effect::CutAfter(few)),
        7 => rule("watch", Effect::EndAfter(few)),
        8 => rule("list", Effect::TruncateAt(100 * few as usize)),
        9 => Some(Fault::CutStreams(instance)),
        10 => rule("watch", Effect::NotReady),
        11 => rule("list", Effect::Refuse(if few.is_multiple_of(2) { 429 } else { 500 })),
        _ => rule("watch", Effect::Refuse(if few.is_multiple_of(2) { 429 } else { 401 })),
    }
}

/// What was done to the log besides writing events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upheaval {
    /// Revisions below this one became unreadable.
    Compacted(ResourceVersion),
    /// A backup was restored; the log went on at this revision, as the next history.
    Restored(ResourceVersion),
    /// Bytes of a collection changed at the same revisions.
    Rewritten(ResourceId),
}
