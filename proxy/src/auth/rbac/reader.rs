//! Reading the four kinds from upstream with weir's own identity: a list in pages, then a watch, over one connection for all of
//! them. A list after a gap says what was lost in it, since it is compared with what was known.
//!
//! Weir need not be allowed to read them. Then rights that are lost are found in the round only, which is slower and as right.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::{debug, info, warn};
use weir_upstream::{BoxError, ConnectError, Connection, Role, SendError, Upstream};

use super::{Kind, Metadata, Rbac, RbacObject};
use crate::auth::Authorizer;
use crate::auth::standings::Named;

/// Objects of one page of a list.
const PAGE: usize = 500;
/// A page, or one event, is not larger: upstream's own limit for one object is some 3 MB, and 500 of them are of 2 KB.
const MAX_BYTES: usize = 64 << 20;
/// How long a watch is open, at least; at most twice that.
const WATCH_SECONDS: u64 = 300;
/// How long a page may take.
const PAGE_LIMIT: Duration = Duration::from_secs(60);
/// How long after a failure upstream is read again, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// When it is tried again to read what weir may not read, or what is not there.
const REFUSED_PAUSE: Duration = Duration::from_secs(300);

/// Reads which rights there are, and tells of those that are lost.
#[derive(Debug)]
pub struct RbacReader {
    upstream: Upstream,
    authorizer: Authorizer,
    rbac: Mutex<Rbac>,
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("connect to upstream")]
    Connect(#[from] ConnectError),
    #[error("ask upstream")]
    Send(#[from] SendError),
    #[error("read upstream's answer")]
    Body(#[source] BoxError),
    #[error("upstream answered with {0}")]
    Answer(StatusCode),
    #[error("no answer in time")]
    Late,
    #[error("understand upstream's answer")]
    Text(#[from] serde_json::Error),
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: Metadata,
    #[serde(borrow)]
    items: Vec<RbacObject<'a>>,
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// How far a kind has been read.
enum Reached {
    /// Up to here; what follows can be watched.
    At(Box<str>),
    /// Nothing can be said of what follows.
    Nowhere,
}

/// A kind that is watched while this is kept.
struct Watched<'a>(&'a RbacReader);

// === impl RbacReader ===

impl RbacReader {
    /// A reader that tells the authorizer.
    pub fn new(upstream: Upstream, authorizer: Authorizer) -> Self {
        Self { upstream, authorizer, rbac: Mutex::default() }
    }

    /// Reads until it is dropped.
    pub async fn run(self) {
        let mut pause = PAUSES.0;
        for turn in 0_usize.. {
            let began = Instant::now();
            // Ends with an error only.
            let Err(error) = self.read(turn).await;
            debug!(error = &error as &dyn std::error::Error, "reading of rights broke off");
            pause = if began.elapsed() > PAUSES.1 { PAUSES.0 } else { (pause * 2).min(PAUSES.1) };
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
        }
    }

    async fn read(&self, turn: usize) -> Result<Infallible, ReadError> {
        let instances = self.upstream.instances();
        let instance = instances.get(turn % instances.len().max(1)).ok_or(ConnectError::NoInstance)?;
        let connection = instance.connect(Role::Review).await?;
        let [roles, bindings, cluster_roles, cluster_bindings] =
            Kind::ALL.map(|kind| Box::pin(self.follow(kind, &connection)));
        let never = tokio::try_join!(roles, bindings, cluster_roles, cluster_bindings)?;
        Ok(never.0)
    }

    /// Reads one kind for as long as the connection lasts.
    async fn follow(&self, kind: Kind, connection: &Connection) -> Result<Infallible, ReadError> {
        loop {
            let pause = match self.read_kind(kind, connection).await {
                Ok(()) if self.rbac.lock().is_full() => {
                    warn!(
                        resource = kind.resource(),
                        "too many rights to remember: those that are lost are noticed later"
                    );
                    self.rbac.lock().forget(kind);
                    REFUSED_PAUSE
                }
                Ok(()) => PAUSES.0,
                Err(ReadError::Answer(StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)) => {
                    info!(
                        resource = kind.resource(),
                        "cannot read rights: those that are lost are noticed later"
                    );
                    self.rbac.lock().forget(kind);
                    REFUSED_PAUSE
                }
                Err(error) => return Err(error),
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Lists and watches, for as long as one goes on from the other.
    async fn read_kind(&self, kind: Kind, connection: &Connection) -> Result<(), ReadError> {
        let mut reached = self.list(kind, connection).await?;
        let mut watched = None;
        while let Reached::At(version) = reached {
            watched.get_or_insert_with(|| Watched::new(self));
            reached = self.watch((kind, version), connection).await?;
        }
        Ok(())
    }

    async fn list(&self, kind: Kind, connection: &Connection) -> Result<Reached, ReadError> {
        let (mut all, mut more) = (HashSet::new(), String::new());
        loop {
            let path = format!("{}?limit={PAGE}{more}", path(kind));
            let asked = async { whole(get(connection, &path).await?).await };
            let page = tokio::time::timeout(PAGE_LIMIT, asked).await.map_err(|_| ReadError::Late)??;
            let List { metadata, items } = serde_json::from_slice(&page)?;
            for item in items {
                all.insert(item.key(kind));
                self.set(kind, item);
            }
            if self.rbac.lock().is_full() {
                return Ok(Reached::Nowhere);
            }
            match metadata.more.filter(|more| !more.is_empty()) {
                Some(token) => more = format!("&continue={token}"),
                None => {
                    let gone = self.rbac.lock().retain(kind, &all);
                    gone.iter().for_each(|named| self.tell(named));
                    return Ok(Reached::At(metadata.resource_version));
                }
            }
        }
    }

    /// Follows changes up to the end of one watch.
    async fn watch(
        &self,
        (kind, mut version): (Kind, Box<str>),
        connection: &Connection,
    ) -> Result<Reached, ReadError> {
        let seconds = rand::random_range(WATCH_SECONDS..2 * WATCH_SECONDS);
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}",
            path(kind)
        );
        let mut body = match get(connection, &path).await {
            Err(ReadError::Answer(StatusCode::GONE)) => return Ok(Reached::Nowhere),
            body => body?,
        };
        let mut text = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| ReadError::Body(error.into()))?.into_data() else {
                continue;
            };
            text.extend_from_slice(&data);
            while let Some(length) = line(&text) {
                let line = text.split_to(length);
                match self.event(kind, &line)? {
                    Some(reached) => version = reached,
                    None => return Ok(Reached::Nowhere),
                }
            }
            if text.len() > MAX_BYTES || self.rbac.lock().is_full() {
                return Ok(Reached::Nowhere);
            }
        }
        Ok(Reached::At(version))
    }

    /// Takes an event. Where it brings the kind to; `None` for an error.
    fn event(&self, kind: Kind, line: &[u8]) -> Result<Option<Box<str>>, ReadError> {
        let Event { r#type, object } = serde_json::from_slice(line)?;
        if r#type == "ERROR" {
            return Ok(None);
        }
        let object: RbacObject<'_> = serde_json::from_str(object.get())?;
        let reached = object.metadata.resource_version.clone();
        match r#type {
            "DELETED" => {
                let named = self.rbac.lock().delete(&object.key(kind));
                named.iter().for_each(|named| self.tell(named));
            }
            "ADDED" | "MODIFIED" => self.set(kind, object),
            _ => {}
        }
        Ok(Some(reached))
    }

    fn set(&self, kind: Kind, object: RbacObject<'_>) {
        let named = self.rbac.lock().set(kind, object);
        named.iter().for_each(|named| self.tell(named));
    }

    fn tell(&self, named: &Named) {
        let questions = self.authorizer.standings.changed(named, Instant::now());
        debug!(subjects = named.subjects.len(), questions, "rights have changed");
    }
}

// === impl Watched ===

impl<'a> Watched<'a> {
    fn new(reader: &'a RbacReader) -> Self {
        reader.authorizer.rechecks.kinds.inc();
        Self(reader)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.authorizer.rechecks.kinds.dec();
    }
}

fn path(kind: Kind) -> String {
    format!("/apis/rbac.authorization.k8s.io/v1/{}", kind.resource())
}

/// The length of the first line, if it is whole.
fn line(text: &[u8]) -> Option<usize> {
    text.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
}

async fn get(connection: &Connection, path: &str) -> Result<Incoming, ReadError> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() =
        path.parse().map_err(|error: http::uri::InvalidUri| ReadError::Body(error.into()))?;
    let json = http::HeaderValue::from_static("application/json");
    request.headers_mut().insert(http::header::ACCEPT, json);
    let answer = connection.send(request).await?;
    match answer.status() {
        StatusCode::OK => Ok(answer.into_body()),
        status => Err(ReadError::Answer(status)),
    }
}

async fn whole(body: Incoming) -> Result<Bytes, ReadError> {
    let body = Limited::new(body, MAX_BYTES).collect().await;
    Ok(body.map_err(ReadError::Body)?.to_bytes())
}
