//! The nodes of one mirror as the proxy asks them: windows, snapshots, logs. Each shard is asked of one of its replicas, and
//! of another one when that cannot answer. Everything here is all or nothing: a shard that nobody can answer for makes the
//! whole question fail, and no answer is silently short.

pub mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::try_join_all;
use weir_core::interest::{Interest, Scope};
use weir_core::message::{CountRequest, InterestEvent, LogRequest, SnapshotStart, Unanswered};
use weir_core::statement::Statement;
use weir_core::window::Window;
use weir_core::{History, Object, ObjectKey, ResourceVersion, SlotSet};

use crate::link::Link;
use crate::merge::{NodeIndex, ShardIndex};
use crate::peers::remote::Standing;
use snapshot::Snapshot;

/// The shards of one mirror, which partition the space, and the nodes that hold them.
#[derive(Clone, Debug)]
pub struct Shards(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    slots: Vec<SlotSet>,
    links: ArcSwap<BTreeMap<NodeIndex, Link>>,
}

// === impl Shards ===

impl Shards {
    /// Over these shards, without nodes so far.
    pub fn new(slots: Vec<SlotSet>) -> Self {
        Self(Arc::new(Inner { slots, links: ArcSwap::default() }))
    }

    /// Each shard on a node in this process.
    pub fn local(cells: Vec<Arc<weir_shard_node::node::cell::NodeCell>>) -> Self {
        let shards = Self::new(cells.iter().map(|cell| cell.slots()).collect());
        for (index, cell) in cells.into_iter().enumerate() {
            shards.add(NodeIndex(index), &Link::local(cell));
        }
        shards
    }

    /// Adds a node.
    pub fn add(&self, node: NodeIndex, link: &Link) {
        self.0.links.rcu(|links| {
            let mut links = BTreeMap::clone(links);
            links.entry(node).or_insert_with(|| link.clone());
            links
        });
    }

    /// Removes a node.
    pub fn remove(&self, node: NodeIndex) {
        self.0.links.rcu(|links| {
            let mut links = BTreeMap::clone(links);
            links.remove(&node);
            links
        });
    }

    /// The nodes.
    pub fn links(&self) -> Arc<BTreeMap<NodeIndex, Link>> {
        self.0.links.load_full()
    }

    /// A node.
    pub fn link(&self, node: NodeIndex) -> Option<Link> {
        self.0.links.load().get(&node).cloned()
    }

    /// The slots of each shard.
    pub fn slots(&self) -> &[SlotSet] {
        &self.0.slots
    }

    /// Which of upstream's histories is read: the latest that a node knows of; `None` while a shard holds nothing of it.
    pub fn history(&self) -> Option<History> {
        self.standing().map(|(history, _)| history)
    }

    /// The earliest history of which a node still holds something.
    pub fn oldest_history(&self) -> Option<History> {
        self.0.links.load().values().filter_map(Link::standing).map(|standing| standing.history).min()
    }

    /// The revisions that all shards can answer, in one history; `None` while there is none.
    pub fn window(&self) -> Option<Window> {
        let (_, shards) = self.standing()?;
        let furthest =
            |replicas: &Vec<Standing>| replicas.iter().map(|standing| standing.window.frontier).max();
        let frontier = shards.iter().map(furthest).min().flatten()?;
        let lowest = |replicas: &Vec<Standing>| {
            let there = replicas.iter().filter(|standing| standing.window.frontier >= frontier);
            there.map(|standing| standing.window.floor).min()
        };
        let floor = shards.iter().map(lowest).collect::<Option<Vec<_>>>()?.into_iter().max()?;
        (floor <= frontier).then_some(Window { floor, frontier })
    }

    /// What the replicas of each shard can answer, in the latest history.
    fn standing(&self) -> Option<(History, Vec<Vec<Standing>>)> {
        let standing: Vec<Standing> = self.0.links.load().values().filter_map(Link::standing).collect();
        let history = standing.iter().map(|standing| standing.history).max()?;
        let shards = self.0.slots.iter().map(|slots| {
            let serves = |standing: &&Standing| standing.history == history && standing.slots.covers(slots);
            standing.iter().filter(serves).copied().collect::<Vec<_>>()
        });
        let shards: Vec<_> = shards.collect();
        shards.iter().all(|replicas| !replicas.is_empty()).then_some((history, shards))
    }

    /// The replicas of a shard, those that say that they can answer for `at` first. Where several can, they take turns.
    fn replicas(&self, slots: &SlotSet, at: ResourceVersion) -> Vec<Link> {
        let links = self.0.links.load();
        let serves = |link: &&Link| link.standing().is_some_and(|standing| standing.slots.covers(slots));
        let mut replicas: Vec<Link> = links.values().filter(serves).cloned().collect();
        if replicas.len() > 1 {
            let turn = rand::random_range(0..replicas.len());
            replicas.rotate_left(turn);
            let can_answer = |link: &Link| {
                link.standing()
                    .is_some_and(|Standing { window, .. }| window.floor <= at && at <= window.frontier)
            };
            replicas.sort_by_key(|link| !can_answer(link));
        }
        replicas
    }

    /// Asks the replicas of a shard one after the other until one answers.
    async fn ask<T, F: Future<Output = Result<T, Unanswered>>>(
        &self,
        (slots, at): (&SlotSet, ResourceVersion),
        question: impl Fn(Link) -> F,
    ) -> Result<T, Unanswered> {
        let mut refusal = Unanswered::Empty;
        for link in self.replicas(slots, at) {
            match question(link).await {
                Ok(answer) => return Ok(answer),
                // That the window has moved says more than that a node was lost.
                Err(unanswered) => {
                    if !matches!(refusal, Unanswered::TooOld { .. }) {
                        refusal = unanswered;
                    }
                }
            }
        }
        Err(refusal)
    }

    /// The collection at exactly `at`, from a start on. Fails unless all shards can answer there.
    pub async fn snapshot(
        &self,
        interest: &Arc<Interest>,
        at: ResourceVersion,
        from: Option<SnapshotStart>,
    ) -> Result<Snapshot, Unanswered> {
        let history = self.history().ok_or(Unanswered::Empty)?;
        Snapshot::open(self, interest.clone(), (history, at, from)).await
    }

    /// One object as it was at `at`.
    pub async fn get(&self, key: &ObjectKey, at: ResourceVersion) -> Result<Option<Arc<Object>>, Unanswered> {
        let history = self.history().ok_or(Unanswered::Empty)?;
        let of_shard = |slots| {
            self.ask((slots, at), move |link| async move { link.get((history, slots), key, at).await })
        };
        let found = try_join_all(self.0.slots.iter().map(of_shard)).await?;
        Ok(found.into_iter().flatten().next())
    }

    /// How many objects of a scope existed at `at`, from a start on; counting ends once a shard has `at_most`.
    pub async fn count(
        &self,
        scope: &Scope,
        (at, from): (ResourceVersion, Option<&SnapshotStart>),
        at_most: usize,
    ) -> Result<usize, Unanswered> {
        let history = self.history().ok_or(Unanswered::Empty)?;
        let of_shard = |slots: &SlotSet| {
            let request = CountRequest {
                history,
                scope: scope.clone(),
                slots: *slots,
                at,
                from: from.cloned(),
                at_most,
            };
            async move {
                let answer = self.ask((&request.slots, at), |link| {
                    let request = request.clone();
                    async move { link.count(request).await }
                });
                answer.await
            }
        };
        Ok(try_join_all(self.0.slots.iter().map(of_shard)).await?.into_iter().sum())
    }

    /// The log of one shard, of any of its replicas.
    pub async fn log(
        &self,
        shard: ShardIndex,
        request: &LogRequest,
    ) -> Result<Statement<InterestEvent>, Unanswered> {
        let answer =
            self.ask((&self.0.slots[shard.0], request.after), |link| async move { link.log(request).await });
        answer.await
    }
}
