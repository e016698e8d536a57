//! What upstream was asked, and by whom: weir's own requests name their purpose in the User-Agent, clients' keep theirs.

use weir_sim::RequestLine;

use super::World;
use crate::truth::Collection;

// === impl World ===

impl World {
    /// All requests that upstream got.
    pub(crate) fn requests(&self) -> Vec<RequestLine> {
        let mut requests = self.requests.lock().unwrap();
        requests.extend(self.sim.take_requests());
        requests.clone()
    }

    /// How many requests upstream got; what comes later is [`World::since`].
    pub(crate) fn mark(&self) -> usize {
        self.requests().len()
    }

    /// The requests that upstream got behind a mark.
    pub(crate) fn since(&self, mark: usize) -> Vec<RequestLine> {
        self.requests().split_off(mark)
    }

    /// Lists of a collection by its feed behind a mark: not the questions for a revision, which name nobody, and not the
    /// comparisons with a small collection, which ask for other numbers at once.
    pub(crate) fn feed_lists(&self, collection: &Collection, mark: usize) -> Vec<RequestLine> {
        let is_list = |line: &RequestLine| {
            let is_question =
                ["fieldSelector", "limit=1000", "limit=200"].iter().any(|part| line.uri.contains(part));
            line.user_agent.contains("(feed)") && line.verb == "list" && !is_question
        };
        let path = format!("{}?", collection.path(None));
        self.since(mark).into_iter().filter(|line| is_list(line) && line.uri.contains(&path)).collect()
    }

    /// The instance that the feed of a collection reads. A mirror is ready before its feed watches, so this may wait.
    pub(crate) async fn feed_instance(&self, collection: &Collection) -> usize {
        let path = format!("{}?", collection.path(None));
        let is_watch = |line: &&RequestLine| {
            let is_short = line.uri.ends_with("timeoutSeconds=3");
            line.user_agent.contains("(feed)")
                && (line.verb.as_str(), line.code) == ("watch", 200)
                && line.uri.contains(&path)
                && !is_short
        };
        let newest = || self.requests().iter().rev().find(is_watch).map(|line| line.instance.0);
        self.until("a feed that watches", || newest().is_some()).await;
        newest().expect("requests are not forgotten")
    }

    /// Nothing behind the mark came from a client: weir answered by itself.
    #[track_caller]
    pub(crate) fn answered_by_weir(&self, mark: usize) {
        let is_own = |line: &&RequestLine| {
            ["(feed)", "(review)", "(proof)"].iter().any(|role| line.user_agent.contains(role))
        };
        let foreign = |line: &RequestLine| !is_own(&line) && line.user_agent != "oracle";
        let foreign: Vec<_> = self.since(mark).into_iter().filter(foreign).collect();
        assert!(foreign.is_empty(), "upstream was asked: {foreign:#?}");
    }
}
