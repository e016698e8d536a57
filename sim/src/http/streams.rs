//! Watches over HTTP: one line for each event, bookmarks by the clock, an end without a word.
//!
//! The stream is pulled: a client that does not read holds nothing but its position, and finds its history gone when it
//! is too slow.

use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::watch::Receiver;
use tokio::time::{Duration, Instant};
use weir_core::Status;
use weir_core::options::WatchTimeout;

use super::body::{self, Broken, Flow};
use super::exchange::{self, ResourceCall};
use super::form::{self, Form, View};
use super::reads::{self, Options};
use super::respond::Answer;
use super::route::PathForm;
use crate::fault::Effect;
use crate::log::EventType;
use crate::read::ListVersion;
use crate::watching::{Bookmarks, Then, Watch, WatchFrom, WatchItem, WatchQuery};

/// What is written at once at most; a burst shares a write.
const ITEMS_PER_WRITE: usize = 64;

/// A watch on its way to one client.
struct Stream {
    call: ResourceCall,
    watch: Watch,
    form: Form,
    changes: Receiver<u64>,
    deadline: Instant,
    bookmark_at: Option<Instant>,
    end: EndAfter,
    flow: Flow,
}

/// When a stream is to end early, and how.
#[derive(Debug, Clone, Copy)]
enum EndAfter {
    /// Not before its time.
    Never,
    /// Cleanly, after so many more events.
    Clean(u32),
    /// With a broken connection, after so many more events.
    Broken(u32),
}

/// Answers a watch. What goes wrong once the resourceVersion was read is an ERROR event.
pub(super) async fn watch(call: ResourceCall, options: Options) -> Result<Answer, Status> {
    let query = watch_query(&call, &options)?;
    let id = call.exchange.id;
    let timeout = WatchTimeout::of(options.list.timeout_seconds);
    if timeout == WatchTimeout::Over {
        return Ok(Answer::Stream(body::lines(String::new())));
    }
    let opened = call.exchange.patiently(|cluster, patience| cluster.watch(id, &query, patience)).await;
    let watch = match opened {
        Ok(watch) => watch,
        Err(status) => {
            let line =
                format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", form::status_tree(&status).to_text());
            return Ok(Answer::Stream(body::lines(line)));
        }
    };
    let sim = call.exchange.sim.clone();
    let asked = ("watch", Some(call.resource));
    let (end, rate) = sim.ask(|cluster| {
        let rules = cluster.rules(id);
        (rules.take(asked, Effect::end).unwrap_or(EndAfter::Never), rules.bytes_per_second(asked))
    });
    let length = match timeout {
        WatchTimeout::After(length) => length,
        WatchTimeout::Unset | WatchTimeout::Over => sim.timing().watch_timeout,
    };
    // A length beyond what an instant can hold is as good as a century.
    let century = Duration::from_secs(3_153_600_000);
    let mut stream = Stream {
        changes: sim.changes(),
        deadline: Instant::now() + length.min(century),
        bookmark_at: None,
        flow: Flow { bytes_per_second: rate, truncate_at: None },
        form: options.form,
        call,
        watch,
        end,
    };
    stream.bookmark_at = stream.first_bookmark();
    Ok(Answer::Stream(body::streamed(Some(stream), |stream| async move { Stream::next(stream?).await })))
}

fn watch_query(call: &ResourceCall, options: &Options) -> Result<WatchQuery, Status> {
    let list = &options.list;
    let text = &*list.resource_version;
    let head = call.exchange.sim.ask(|cluster| cluster.log().head());
    let rv = match text {
        "" => None,
        text => Some(reads::parse_version(text).map_err(|why| Status::new(500, "", why))?),
    };
    let is_legacy_path = call.target.form == PathForm::Watch && !list.watch;
    let freshness = match rv {
        None if is_legacy_path => ListVersion::Any,
        None => ListVersion::Consistent(head),
        Some(rv) if rv.is_zero() => ListVersion::Any,
        Some(rv) => ListVersion::NotOlderThan(rv),
    };
    let from = match (list.send_initial_events, rv) {
        (Some(true), _) => WatchFrom::Initial(freshness),
        (Some(false) | None, Some(rv)) if !rv.is_zero() => WatchFrom::After(rv),
        (Some(false), _) => WatchFrom::Now(freshness),
        (None, _) => WatchFrom::Initial(freshness),
    };
    let bookmarks = match (list.allow_watch_bookmarks, list.send_initial_events) {
        (false, _) => Bookmarks::None,
        (true, Some(true)) => Bookmarks::WithEndMark,
        (true, Some(false) | None) => Bookmarks::Plain,
    };
    Ok(WatchQuery {
        resource: call.resource,
        namespace: options.namespace(call),
        selection: options.selection.clone(),
        from,
        bookmarks,
    })
}

// === impl Stream ===

impl Stream {
    /// The next piece of the body; the state that follows it is none when the body has ended.
    async fn next(mut self) -> Option<(Result<Frame<Bytes>, Broken>, Option<Self>)> {
        let (sim, id) = (self.call.exchange.sim.clone(), self.call.exchange.id);
        loop {
            self.changes.borrow_and_update();
            exchange::unmuted(&sim, id, self.call.resource).await;
            match self.end {
                EndAfter::Broken(0) => return Some((Err(body::broken().await), None)),
                EndAfter::Clean(0) => return None,
                EndAfter::Broken(_) | EndAfter::Clean(_) | EndAfter::Never => {}
            }
            let max = self.end.most(ITEMS_PER_WRITE);
            let (items, then) = sim.ask(|cluster| cluster.read_on(id, &mut self.watch, max));
            if !items.is_empty() {
                return self.write(&items).await;
            }
            match then {
                Then::More => continue,
                Then::Ended => return None,
                Then::Broken => return Some((Err(body::broken().await), None)),
                Then::Idle => {}
            }
            let deadline = self.deadline;
            let bookmark_at = self.bookmark_at.unwrap_or(deadline);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(deadline) => return None,
                () = tokio::time::sleep_until(bookmark_at) => {
                    self.bookmark_at = self.next_bookmark();
                    let bookmark = sim.ask(|cluster| cluster.bookmark(id, &self.watch));
                    if let Some(bookmark) = bookmark {
                        return self.write(&[bookmark]).await;
                    }
                }
                changed = self.changes.changed() => changed.ok()?,
            }
        }
    }

    async fn write(mut self, items: &[WatchItem]) -> Option<(Result<Frame<Bytes>, Broken>, Option<Self>)> {
        if self.form.view == View::MetadataList {
            return None;
        }
        let text: String = items.iter().map(|item| self.line(item)).collect();
        let changes = items.iter().filter(|item| matches!(item, WatchItem::Change { .. })).count();
        self.end.count(changes);
        if let Some(time) = self.flow.duration(text.len()) {
            tokio::time::sleep(time).await;
        }
        Some((Ok(Frame::data(Bytes::from(text))), Some(self)))
    }

    fn line(&self, item: &WatchItem) -> String {
        let (event, object) = match item {
            WatchItem::Change { event: EventType::Added, object } => ("ADDED", self.form.watched(object)),
            WatchItem::Change { event: EventType::Modified, object } => {
                ("MODIFIED", self.form.watched(object))
            }
            WatchItem::Change { event: EventType::Deleted, object } => ("DELETED", self.form.watched(object)),
            WatchItem::Bookmark { rv, marks_end } => {
                ("BOOKMARK", self.form.bookmark(&self.call.info, *rv, *marks_end))
            }
        };
        format!("{{\"type\":\"{event}\",\"object\":{object}}}\n")
    }

    /// A watch that got an end mark may get a plain bookmark soon; the others wait for their time.
    fn first_bookmark(&self) -> Option<Instant> {
        let timing = self.call.exchange.sim.timing();
        let at = self.next_bookmark()?;
        let is_marked = self.watch.query().bookmarks == Bookmarks::WithEndMark;
        Some(if is_marked { at.min(Instant::now() + timing.first_bookmark) } else { at })
    }

    /// A period from now, but some time before the end; never when that has passed.
    fn next_bookmark(&self) -> Option<Instant> {
        let timing = self.call.exchange.sim.timing();
        let now = Instant::now();
        let last = self.deadline.checked_sub(timing.last_bookmark)?;
        (self.watch.has_bookmarks() && last > now).then(|| last.min(now + timing.bookmark_period))
    }
}

// === impl EndAfter ===

impl EndAfter {
    fn most(self, most: usize) -> usize {
        match self {
            Self::Never => most,
            Self::Clean(left) | Self::Broken(left) => most.min(left as usize),
        }
    }

    fn count(&mut self, changes: usize) {
        match self {
            Self::Never => {}
            Self::Clean(left) | Self::Broken(left) => {
                *left = left.saturating_sub(u32::try_from(changes).unwrap_or(u32::MAX));
            }
        }
    }
}

// === impl Effect ===

impl Effect {
    fn end(self) -> Option<EndAfter> {
        match self {
            Self::CutAfter(events) => Some(EndAfter::Broken(events)),
            Self::EndAfter(events) => Some(EndAfter::Clean(events)),
            Self::Refuse(_) | Self::NotReady | Self::TruncateAt(_) => None,
        }
    }
}
