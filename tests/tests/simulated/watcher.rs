//! A client that watches a choice and resumes at random positions, and keeps all that it saw in one record for the checker.
//! When it is told to list again it does, and goes on in another record.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, interval};
use weir_core::ResourceVersion;
use weir_core::message::EventKind;
use weir_sim::Seed;
use weir_tests::checker::{Item, Listing, Watch};

use crate::client::{Answer, Client, LIMIT};
use crate::stream::{Event, Watching};
use crate::truth::{Choice, Truth};
use crate::world::World;

/// How a watcher gets its first state, and another one after a 410.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With a list of whatever the mirror has.
    List,
    /// With the initial events of a WatchList.
    Stream,
}

/// When a watcher resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resumes {
    /// After every few events.
    Often,
    /// When its stream has ended.
    WhenEnded,
}

/// What a watcher saw.
#[derive(Clone, Default, Debug)]
pub(crate) struct Saw {
    /// One state and what was watched from it on, for each time that it needed a state.
    pub(crate) rounds: Vec<(Listing, Watch)>,
    /// How often it resumed.
    pub(crate) resumes: usize,
    /// How many streams broke.
    pub(crate) breaks: usize,
    /// How many requests were refused.
    pub(crate) refusals: usize,
}

/// A watcher at work.
pub(crate) struct Watcher {
    choice: Choice,
    goal: watch::Sender<Option<ResourceVersion>>,
    saw: Arc<Mutex<Saw>>,
    task: AbortHandle,
}

struct Work {
    client: Client,
    choice: Choice,
    start: Start,
    resumes: Resumes,
    seed: Seed,
    goal: watch::Receiver<Option<ResourceVersion>>,
    saw: Arc<Mutex<Saw>>,
}

// === impl Saw ===

impl Saw {
    fn position(&self) -> ResourceVersion {
        self.rounds.last().map(|(_, watch)| watch.position()).unwrap_or_default()
    }

    /// How many events came.
    pub(crate) fn events(&self) -> usize {
        let items = self.rounds.iter().flat_map(|(_, watch)| &watch.items);
        items.filter(|item| matches!(item, Item::Event(_))).count()
    }
}

// === impl Watcher ===

impl Watcher {
    /// Starts one; it has its first state when this returns.
    pub(crate) async fn start(world: &World, choice: Choice, how: (Start, Resumes), seed: u64) -> Self {
        let (goal, wanted) = watch::channel(None);
        let saw = Arc::default();
        let mut work = Work {
            client: world.client.clone(),
            choice: choice.clone(),
            start: how.0,
            resumes: how.1,
            seed: Seed::new(seed),
            goal: wanted,
            saw: Arc::clone(&saw),
        };
        let stream = work.begin().await;
        let task = world.tasks.spawn("watcher", async move { work.run(stream).await });
        Self { choice, goal, saw, task }
    }

    /// What it saw so far.
    pub(crate) fn saw(&self) -> Saw {
        self.saw.lock().unwrap().clone()
    }

    /// Where it is.
    pub(crate) fn position(&self) -> ResourceVersion {
        self.saw.lock().unwrap().position()
    }

    /// Lets it come to the last event of its choice, and judges all that it saw.
    pub(crate) async fn finish(self, world: &World, truth: &Truth) -> Saw {
        let goal = truth.last_event(&self.choice, ResourceVersion::ZERO).unwrap_or_default();
        self.goal.send_replace(Some(goal));
        let what = format!("{:?} comes to {goal}", self.choice);
        world.until(&what, || self.task.is_finished()).await;
        assert!(self.position() >= goal, "{what}: a watcher panicked");
        let mut saw = self.saw();
        if let Some((_, last)) = saw.rounds.last_mut() {
            last.complete_to = goal;
        }
        for (listing, watch) in &saw.rounds {
            truth.check_list(&self.choice, listing);
            truth.check_watch(&self.choice, watch);
        }
        saw
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Work ===

impl Work {
    async fn run(mut self, mut stream: Watching) {
        let mut left = self.few();
        while !self.is_done() {
            let event = tokio::select! {
                event = stream.next_at_last() => event,
                _ = self.goal.changed() => continue,
            };
            match event {
                Event::Change(_) | Event::Bookmark { .. } => {
                    self.note(&event);
                    left = left.saturating_sub(1);
                    if left == 0 && self.resumes == Resumes::Often {
                        stream = self.resume().await;
                        left = self.few();
                    }
                }
                Event::End => stream = self.resume().await,
                Event::Break => {
                    self.saw.lock().unwrap().breaks += 1;
                    stream = self.resume().await;
                }
                Event::Error { code: 410, .. } => stream = self.begin().await,
                Event::Error { .. } => panic!("{:?}: {event:?}", self.choice),
            }
        }
    }

    /// A state, and the stream that goes on from it.
    async fn begin(&mut self) -> Watching {
        let not_older_than = self.position();
        let (mut listing, stream) = match self.start {
            Start::List => {
                let path = self.choice.path("resourceVersion=0");
                let list = loop {
                    if let Some(list) = self.insist(&path).await.whole_or_broken().await {
                        break list;
                    }
                };
                let (meta, items) = self.choice.collection.items(&list);
                let listing = Listing { at: meta.at(), items, ..Listing::default() };
                let stream = self.open(listing.at).await;
                (listing, stream)
            }
            Start::Stream => self.initial_events().await,
        };
        listing.not_older_than = not_older_than;
        let watch = Watch::starting_at(listing.at);
        self.saw.lock().unwrap().rounds.push((listing, watch));
        stream
    }

    async fn initial_events(&mut self) -> (Listing, Watching) {
        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0\
                     &allowWatchBookmarks=true";
        let path = self.choice.path(query);
        let mut stream = Watching::new(&path, self.insist(&path).await);
        let mut listing = Listing::default();
        loop {
            match stream.next().await {
                Event::Change(seen) => {
                    assert_eq!(seen.kind, EventKind::Added, "an initial event");
                    listing.items.push(seen.version);
                }
                Event::Bookmark { at, marks_end: true } => {
                    listing.at = at;
                    return (listing, stream);
                }
                // What had come is no state: it is asked for once more.
                Event::End | Event::Break | Event::Error { .. } => {
                    listing = Listing::default();
                    stream = Watching::new(&path, self.insist(&path).await);
                }
                Event::Bookmark { .. } => panic!("{:?}: a bookmark among the initial events", self.choice),
            }
        }
    }

    async fn resume(&mut self) -> Watching {
        self.saw.lock().unwrap().resumes += 1;
        self.open(self.position()).await
    }

    async fn open(&self, after: ResourceVersion) -> Watching {
        let path = self.choice.path(&format!("watch=1&allowWatchBookmarks=true&resourceVersion={after}"));
        Watching::new(&path, self.insist(&path).await)
    }

    /// An answer that is one; refusals are taken for what they are, a reason to try again.
    async fn insist(&self, path: &str) -> Answer {
        let deadline = Instant::now() + LIMIT;
        let mut tick = interval(Duration::from_millis(20));
        loop {
            tick.tick().await;
            match self.client.open_or_broken(path).await {
                Some(answer) if answer.code == 200 => return answer,
                _ => self.saw.lock().unwrap().refusals += 1,
            }
            assert!(Instant::now() < deadline, "{path}: refused for too long");
        }
    }

    fn note(&self, event: &Event) {
        let mut saw = self.saw.lock().unwrap();
        let (_, watch) = saw.rounds.last_mut().expect("a state came first");
        watch.items.extend(event.item());
    }

    fn position(&self) -> ResourceVersion {
        self.saw.lock().unwrap().position()
    }

    fn is_done(&self) -> bool {
        self.goal.borrow().is_some_and(|goal| self.position() >= goal)
    }

    fn few(&mut self) -> usize {
        1 + self.seed.below(12)
    }
}
