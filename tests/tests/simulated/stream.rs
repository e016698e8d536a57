//! The stream of a watch: its lines as they came, and what they say. It is pulled, so a test that does not ask for the next
//! event is a client that does not read.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;
use weir_core::ResourceVersion;
use weir_core::message::EventKind;
use weir_tests::checker::{Item, Seen};

use crate::client::{Answer, LIMIT, header, is_of_mirror};
use crate::truth;

/// A watch that is open.
pub(crate) struct Watching {
    path: String,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    unread: BytesMut,
}

/// What came on a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An event of an object.
    Change(Seen),
    /// A bookmark; whether it marks the end of initial events.
    Bookmark { at: ResourceVersion, marks_end: bool },
    /// An ERROR event with the code and reason of its Status.
    Error { code: u16, reason: String },
    /// The end of the stream, as it should end.
    End,
    /// The end of the stream by a break.
    Break,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ErrorStatus {
    code: u16,
    reason: String,
}

// === impl Watching ===

impl Watching {
    pub(crate) fn new(path: &str, answer: Answer) -> Self {
        Self { path: path.to_owned(), headers: answer.headers, body: answer.body, unread: BytesMut::new() }
    }

    /// The header that says who answers.
    pub(crate) fn answered_by(&self) -> &str {
        header(&self.headers, "weir-answered-by")
    }

    /// Whether the mirror answers.
    pub(crate) fn is_mirrored(&self) -> bool {
        is_of_mirror(self.answered_by())
    }

    /// A watch of the mirror, as it has to be.
    #[track_caller]
    pub(crate) fn mirrored(self) -> Self {
        assert!(self.is_mirrored(), "{} by {}", self.path, self.answered_by());
        self
    }

    /// The next line, with its end; how the stream ended if there is none.
    pub(crate) async fn line(&mut self) -> Result<Bytes, Event> {
        let line = timeout(LIMIT, self.line_at_last()).await;
        line.unwrap_or_else(|_| panic!("nothing came on {} in time", self.path))
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Event {
        match self.line().await {
            Ok(line) => Event::parse(&line),
            Err(end) => end,
        }
    }

    /// The next event, however long it takes. Dropping the future loses nothing.
    pub(crate) async fn next_at_last(&mut self) -> Event {
        match self.line_at_last().await {
            Ok(line) => Event::parse(&line),
            Err(end) => end,
        }
    }

    /// The next event, which has to be one of an object.
    pub(crate) async fn change(&mut self) -> Seen {
        match self.next().await {
            Event::Change(seen) => seen,
            other => panic!("{}: {other:?} in place of an event", self.path),
        }
    }

    /// Everything up to the end of the stream, which comes last.
    pub(crate) async fn rest(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            let is_end = matches!(event, Event::End | Event::Break);
            events.push(event);
            if is_end {
                return events;
            }
        }
    }

    /// Everything up to the bookmark that ends the initial events; the lines as they came.
    pub(crate) async fn initial_lines(&mut self) -> Vec<Bytes> {
        let mut lines = Vec::new();
        loop {
            let line = self.line().await.unwrap_or_else(|end| panic!("{}: {end:?}", self.path));
            lines.push(line.clone());
            if matches!(Event::parse(&line), Event::Bookmark { marks_end: true, .. }) {
                return lines;
            }
        }
    }

    async fn line_at_last(&mut self) -> Result<Bytes, Event> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                return Ok(self.unread.split_to(end + 1).freeze());
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.unread.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(_)) => return Err(Event::Break),
                None if self.unread.is_empty() => return Err(Event::End),
                None => panic!("{} ended within a line: {:?}", self.path, self.unread),
            }
        }
    }
}

// === impl Event ===

impl Event {
    /// Reads one line.
    pub(crate) fn parse(line: &[u8]) -> Self {
        let text = || String::from_utf8_lossy(line).into_owned();
        let parsed: Line<'_> =
            serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}: {}", text()));
        let object = parsed.object.get();
        let change = |kind| Self::Change(Seen { kind, version: truth::version_of(object) });
        match parsed.kind {
            "ADDED" => change(EventKind::Added),
            "MODIFIED" => change(EventKind::Modified),
            "DELETED" => change(EventKind::Deleted),
            "BOOKMARK" => {
                let Bookmark { metadata } = serde_json::from_str(object).unwrap();
                let marks_end =
                    metadata.annotations.get("k8s.io/initial-events-end").is_some_and(|v| v == "true");
                Self::Bookmark { at: metadata.resource_version.parse().unwrap(), marks_end }
            }
            "ERROR" => {
                let ErrorStatus { code, reason } = serde_json::from_str(object).unwrap();
                Self::Error { code, reason }
            }
            other => panic!("an event of type {other:?}: {}", text()),
        }
    }

    /// What the checker judges of it.
    pub(crate) fn item(&self) -> Option<Item> {
        match self {
            Self::Change(seen) => Some(Item::Event(seen.clone())),
            Self::Bookmark { at, .. } => Some(Item::Bookmark(*at)),
            Self::Error { .. } | Self::End | Self::Break => None,
        }
    }

    /// Whether the client has to list again.
    pub(crate) fn is_expired(&self) -> bool {
        matches!(self, Self::Error { code: 410, .. })
    }
}
