//! The simulated apiserver judged by itself: whatever goes wrong by plan, a client that follows the protocol (list,
//! watch, resume, list again at 410) ends with the log's own state and has seen every change once, in order. If this
//! fails, no test that uses the simulation as its truth means anything.

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_core::ResourceVersion;
    use weir_sim::{
        Bookmarks, Churn, ChurnShape, Cluster, ClusterConfig, EventType, Fault, FaultPlan, InstanceId,
        ListQuery, ListVersion, Pace, Patience, PlanShape, Record, ResourceId, Seed, Selection, Step,
        StoreKey, Then, Watch, WatchFrom, WatchItem, WatchQuery,
    };

    const STEPS: u64 = 400;

    /// One client of one collection on one instance.
    struct Reflector {
        at: InstanceId,
        resource: ResourceId,
        state: BTreeMap<StoreKey, Vec<u8>>,
        listed: ResourceVersion,
        position: ResourceVersion,
        seen: Vec<ResourceVersion>,
        watch: Option<Watch>,
        lists: usize,
    }

    // === impl Reflector ===

    impl Reflector {
        fn start(cluster: &mut Cluster, at: InstanceId, resource: ResourceId) -> Self {
            let mut reflector = Self {
                at,
                resource,
                state: BTreeMap::new(),
                listed: ResourceVersion::ZERO,
                position: ResourceVersion::ZERO,
                seen: Vec::new(),
                watch: None,
                lists: 0,
            };
            reflector.list(cluster);
            reflector
        }

        fn list(&mut self, cluster: &mut Cluster) {
            let query = ListQuery {
                resource: self.resource,
                namespace: None,
                selection: Selection::everything(),
                version: ListVersion::Any,
                limit: None,
                start: String::new(),
            };
            let Ok(Step::Ready(page)) = cluster.list(self.at, &query, Patience::Waits) else {
                panic!("a list of any state is answered at once")
            };
            self.state = page.items.iter().map(|item| (item.key().clone(), item.bytes().to_vec())).collect();
            (self.listed, self.position) = (page.rv, page.rv);
            self.seen.clear();
            self.watch = None;
            self.lists += 1;
        }

        fn run(&mut self, cluster: &mut Cluster, max: usize) {
            let Some(watch) = &mut self.watch else { return self.open(cluster) };
            let (items, then) = cluster.read_on(self.at, watch, max);
            for item in items {
                self.take(item);
            }
            if then == Then::Idle
                && let Some(watch) = &self.watch
                && let Some(bookmark) = cluster.bookmark(self.at, watch)
            {
                self.take(bookmark);
            }
            if matches!(then, Then::Ended | Then::Broken) {
                self.watch = None;
            }
        }

        fn open(&mut self, cluster: &mut Cluster) {
            let query = WatchQuery {
                resource: self.resource,
                namespace: None,
                selection: Selection::everything(),
                from: WatchFrom::After(self.position),
                bookmarks: Bookmarks::Plain,
            };
            match cluster.watch(self.at, &query, Patience::Waits) {
                Ok(Step::Ready(watch)) => self.watch = Some(watch),
                Ok(Step::Wait(rv)) => panic!("a resume waits for {rv}"),
                Err(status) => {
                    assert_eq!((status.code, &*status.reason), (410, "Expired"));
                    self.list(cluster);
                }
            }
        }

        fn take(&mut self, item: WatchItem) {
            match item {
                WatchItem::Bookmark { rv, .. } => {
                    assert!(rv >= self.position, "a bookmark at {rv} after {}", self.position);
                    self.position = rv;
                }
                WatchItem::Change { event, object } => {
                    assert!(object.rv() > self.position, "{} after {}", object.rv(), self.position);
                    self.position = object.rv();
                    self.seen.push(object.rv());
                    match event {
                        EventType::Added | EventType::Modified => {
                            self.state.insert(object.key().clone(), object.bytes().to_vec());
                        }
                        EventType::Deleted => {
                            self.state.remove(object.key());
                        }
                    }
                }
            }
        }
    }

    fn truth(cluster: &Cluster, resource: ResourceId, after: ResourceVersion) -> Vec<ResourceVersion> {
        let own = cluster.record().filter_map(|entry| match entry {
            Record::Event(event) if event.resource == resource && event.rv > after => Some(event.rv),
            Record::Event(_) | Record::Upheaval(_) => None,
        });
        own.collect()
    }

    /// Runs one seed; hands back how many lists the reflectors needed.
    fn run(seed: u64) -> usize {
        let config = ClusterConfig { seed, watch_history: 60, ..ClusterConfig::default() };
        let mut cluster = Cluster::new(config);
        let mut churn = Churn::fill(&mut cluster, seed, ChurnShape { pods: 10, ..ChurnShape::default() });
        let names = ["pods", "configmaps", "gauges.metering.weir.test"];
        let resources = names.map(|name| cluster.resource(name).unwrap()).to_vec();
        let mut chance = Seed::new(seed);
        let shape = PlanShape {
            instances: 2,
            resources: resources.clone(),
            events: cluster.written() + STEPS,
            faults: 30,
        };
        cluster.set_plan(FaultPlan::random(&mut chance, &shape));
        let places =
            [InstanceId(0), InstanceId(1)].into_iter().flat_map(|at| resources.iter().map(move |r| (at, *r)));
        let mut reflectors: Vec<_> =
            places.map(|(at, resource)| Reflector::start(&mut cluster, at, resource)).collect();
        for _ in 0..STEPS {
            churn.step(&mut cluster);
            let index = chance.below(reflectors.len());
            let max = 1 + chance.below(5);
            reflectors[index].run(&mut cluster, max);
        }
        cluster.set_plan(FaultPlan::default());
        for id in [InstanceId(0), InstanceId(1)] {
            cluster.inject(Fault::Pace(id, Pace::Current));
        }
        for reflector in &mut reflectors {
            // Two ends and a list again are the most that can still come.
            for _ in 0..4 {
                reflector.run(&mut cluster, usize::MAX);
            }
            let head = cluster.log().head();
            let current = cluster.log().scan(reflector.resource, ("", ""), head);
            let expected: BTreeMap<_, _> =
                current.map(|object| (object.key().clone(), object.bytes().to_vec())).collect();
            assert_eq!(reflector.state, expected);
            assert_eq!(reflector.seen, truth(&cluster, reflector.resource, reflector.listed));
        }
        reflectors.iter().map(|reflector| reflector.lists).sum()
    }

    #[test]
    fn every_reflector_ends_with_the_truth() {
        let mut lists = 0;
        for seed in 0..15 {
            // Shown when the run fails, and enough to repeat it.
            println!("seed {seed}");
            lists += run(seed);
        }
        assert!(lists > 15 * 6, "no plan ever made anybody list again");
    }
}
