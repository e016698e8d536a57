//! Reading a watch: lines to statements. All lines that arrived together become one statement, so a burst costs one step
//! everywhere behind.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use weir_core::message::{Change, ChangeKind};
use weir_core::mirror::{BookmarkTemplate, MirrorSpec};
use weir_core::object::ObjectError;
use weir_core::object::watch_line::{WatchKind, WatchLine, WatchLineError};
use weir_core::statement::{Malformed, SourceId, Statement};
use weir_core::{Object, ResourceVersion};
use weir_upstream::Connection;

use super::request::{self, RequestError};
use super::ring::statement_of;

/// The longest line: an object that upstream can store, with what JSON adds to it.
const MAX_LINE: usize = 64 << 20;

/// Why a watch ended otherwise than by its end.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Upstream did not answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The body broke off.
    #[error("read the watch")]
    Body(#[source] hyper::Error),
    /// A line that is no event.
    #[error("understand a line of the watch")]
    Line(#[from] WatchLineError),
    /// A line that does not end.
    #[error("a line of more than {MAX_LINE} bytes")]
    LongLine,
    /// An object that cannot be kept. It is never skipped.
    #[error("keep the object of an event")]
    Object(#[from] ObjectError),
    /// Positions that do not rise.
    #[error("events out of order")]
    Order(#[from] Malformed),
    /// An ERROR event.
    #[error("upstream ended the watch: {code} {message}")]
    Ended {
        /// The Status' code.
        code: u16,
        /// The Status' message.
        message: String,
    },
    /// An ERROR event without a Status.
    #[error("upstream ended the watch with an error that cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct ErrorStatus {
    code: u16,
    message: String,
}

/// An open watch.
#[derive(Debug)]
pub struct Watching {
    body: Incoming,
    spec: Arc<MirrorSpec>,
    source: SourceId,
    position: ResourceVersion,
    unread: BytesMut,
}

// === impl Watching ===

impl Watching {
    /// Opens a watch after `after` that upstream ends after `seconds`.
    pub async fn open(
        connection: &Connection,
        spec: &Arc<MirrorSpec>,
        after: ResourceVersion,
        seconds: u32,
    ) -> Result<Self, WatchError> {
        let query =
            format!("watch=true&allowWatchBookmarks=true&resourceVersion={after}&timeoutSeconds={seconds}");
        let path = request::collection(&spec.resource, None, &query);
        let response = request::get(connection, &path).await?;
        // Over HTTP/1.1 every request may take another connection, and the connection is what vouches.
        let source = response.extensions().get::<SourceId>().copied().unwrap_or_else(|| connection.id());
        Ok(Self {
            body: response.into_body(),
            spec: spec.clone(),
            source,
            position: after,
            unread: BytesMut::new(),
        })
    }

    /// Who vouches for it.
    pub fn source(&self) -> SourceId {
        self.source
    }

    /// The next statement; `None` at the end of the watch. Dropping the future loses nothing: what was read stays here.
    pub async fn next(&mut self) -> Result<Option<Statement<Change>>, WatchError> {
        loop {
            if let Some(statement) = self.take_lines()? {
                return Ok(Some(statement));
            }
            if self.unread.len() > MAX_LINE {
                return Err(WatchError::LongLine);
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame.map_err(WatchError::Body)?.into_data() {
                self.unread.extend_from_slice(&data);
            }
        }
    }

    /// All whole lines that are there, as one statement.
    fn take_lines(&mut self) -> Result<Option<Statement<Change>>, WatchError> {
        let Some(end) = memchr::memrchr(b'\n', &self.unread) else { return Ok(None) };
        let lines = self.unread.split_to(end + 1).freeze();
        let mut changes = Vec::new();
        let mut bookmark = None;
        for line in lines.as_ref().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event = WatchLine::parse(line)?;
            let object = event.object_of(line);
            match event.kind {
                WatchKind::Added | WatchKind::Modified => changes.push(self.change(object, ChangeKind::Put)?),
                WatchKind::Deleted => changes.push(self.change(object, ChangeKind::Delete)?),
                WatchKind::Bookmark => bookmark = Some(bookmark_version(object)?),
                WatchKind::Error => return Err(error_of(object)),
            }
        }
        if self.unread.is_empty() {
            self.unread = BytesMut::new();
        }
        let statement = statement_of(self.source, self.position, changes, bookmark)?;
        self.position = statement.to();
        Ok(Some(statement))
    }

    fn change(&self, object: &[u8], kind: ChangeKind) -> Result<Change, ObjectError> {
        let object = Object::parse(object, &self.spec.schema)?;
        Ok(Change { rv: object.rv(), kind, object: Arc::new(object) })
    }
}

fn bookmark_version(object: &[u8]) -> Result<ResourceVersion, WatchError> {
    #[derive(Deserialize)]
    struct Bookmark {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    let bookmark: Bookmark = serde_json::from_reader(object.reader()).map_err(WatchError::Unreadable)?;
    Ok(bookmark.metadata.resource_version.parse().unwrap_or_default())
}

fn error_of(object: &[u8]) -> WatchError {
    match serde_json::from_slice(object) {
        Ok(ErrorStatus { code, message }) => WatchError::Ended { code, message },
        Err(source) => WatchError::Unreadable(source),
    }
}

// === impl WatchError ===

impl WatchError {
    /// Whether upstream no longer has the log from the position asked for.
    pub fn is_expired(&self) -> bool {
        match self {
            Self::Ended { code, .. } => *code == 410,
            Self::Request(error) => error.code() == Some(410),
            Self::Body(_)
            | Self::Line(_)
            | Self::LongLine
            | Self::Object(_)
            | Self::Order(_)
            | Self::Unreadable(_) => false,
        }
    }
}

/// The bookmark that upstream sends behind the initial events of a collection without any; `None` where upstream does
/// not send one.
pub async fn end_bookmark(
    connection: &Connection,
    spec: &MirrorSpec,
) -> Result<Option<BookmarkTemplate>, RequestError> {
    let query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &fieldSelector=metadata.name%3Dweir-asks-for-nobody&timeoutSeconds=3";
    let path = request::collection(&spec.resource, None, query);
    let mut body = match request::get(connection, &path).await {
        Ok(response) => response.into_body(),
        Err(error) if error.code().is_some() => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut unread = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        unread.extend_from_slice(&frame.into_data().unwrap_or_default());
        let Some(end) = memchr::memchr(b'\n', &unread) else { continue };
        let line = &unread[..end];
        let Ok(event) = WatchLine::parse(line) else { return Ok(None) };
        let object = std::str::from_utf8(event.object_of(line)).unwrap_or_default();
        return Ok((event.kind == WatchKind::Bookmark)
            .then(|| BookmarkTemplate::of_end_bookmark(object))
            .flatten());
    }
    Ok(None)
}
