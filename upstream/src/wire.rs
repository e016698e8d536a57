//! From a byte stream to HTTP: one connection that takes requests, HTTP/2 where the other end chose it. Everything that
//! both kinds of connection share, weir's own and the pooled ones, is here.

use std::{
    error::Error,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, Request, Response, Uri, Version, header, uri::PathAndQuery};
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1, http2},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tracing::debug;
use weir_daemon::TaskExecutor;

use crate::{
    access::Identity,
    dial::{self, Stream},
    error::ConnectError,
    forward::RequestBody,
    instance::Instance,
};

/// Bounds a connect as a whole: look-up, TCP, TLS.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A ping after this much silence; without an answer in the same time again the connection is dead: 40 s at most.
const PING_AFTER: Duration = Duration::from_secs(20);
const PING_LIMIT: Duration = Duration::from_secs(20);

/// What Go's servers allow; hyper's own 16 KB would cut off answers with many warnings.
const HEADER_BYTES: u32 = 1 << 20;
const HTTP1_HEADERS: usize = 1_024;

/// Frames of this size save reads and cost one buffer a connection.
const FRAME_BYTES: u32 = 64 * 1024;

/// How much may be on its way to us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Bytes of one stream.
    pub(crate) stream: u32,
    /// Bytes of a connection.
    pub(crate) connection: u32,
}

/// What a connection is opened for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose {
    pub(crate) identity: Identity,
    pub(crate) windows: Windows,
}

/// One connection, ready for requests.
#[derive(Debug)]
pub(crate) enum Wire {
    Http2(Http2),
    Http1(http1::SendRequest<RequestBody>),
}

/// An HTTP/2 connection; clones are the same connection.
#[derive(Clone, Debug)]
pub(crate) struct Http2 {
    sender: http2::SendRequest<RequestBody>,
    /// How many streams the other end takes, as far as it has said so.
    max_streams: Arc<AtomicUsize>,
    course: watch::Sender<Course>,
}

/// Where a connection is between its first request and its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Course {
    Open,
    /// It is given no requests any more; answers may still come.
    Closing,
    /// Nor does it take those that wait in its queue.
    Ended,
}

/// Why a request has no answer.
pub(crate) enum Lost {
    /// It was never sent.
    Unsent(hyper::Error),
    /// Nothing will ever send it.
    Stuck,
    /// The other end has said that it did not look at it.
    Refused(hyper::Error),
    /// It may have been carried out.
    Sent(hyper::Error),
    /// It may have been carried out, and the wait was given up.
    Silent,
}

/// Opens a connection to the instance and remembers how that went.
pub(crate) async fn open(instance: &Instance, purpose: Purpose) -> Result<Wire, ConnectError> {
    let opened = match tokio::time::timeout(CONNECT_LIMIT, open_unlimited(instance, purpose)).await {
        Ok(opened) => opened,
        Err(_) => Err(ConnectError::Timeout { instance: instance.name().to_owned() }),
    };
    match &opened {
        Ok(_) => instance.note_connected(),
        Err(error) => instance.note_unreachable(error),
    }
    opened
}

async fn open_unlimited(instance: &Instance, purpose: Purpose) -> Result<Wire, ConnectError> {
    let stream = stream(instance, purpose.identity).await?;
    let failed = |source| ConnectError::Http { instance: instance.name().to_owned(), source };
    let wire = if stream.is_http2() {
        http2_wire(instance, stream, purpose.windows).await
    } else {
        http1_wire(instance, stream).await
    };
    wire.map_err(failed)
}

async fn stream(instance: &Instance, identity: Identity) -> Result<Stream, ConnectError> {
    let target = &instance.target;
    let name = || target.name.clone();
    let addresses = target
        .resolve()
        .await
        .map_err(|source| ConnectError::Resolve { host: target.host.clone(), source })?;
    let tcp = dial::tcp(&addresses).await.map_err(|source| ConnectError::Tcp { instance: name(), source })?;
    let Some(server_name) = target.server_name.clone() else { return Ok(Stream::Plain(tcp)) };
    if identity == Identity::Own {
        instance.access.keep_fresh().await;
    }
    dial::tls(tcp, instance.access.tls(identity), server_name)
        .await
        .map_err(|source| ConnectError::Tls { instance: name(), source })
}

async fn http2_wire(instance: &Instance, stream: Stream, windows: Windows) -> Result<Wire, hyper::Error> {
    let executor = TaskExecutor::new(instance.lifecycle.clone(), "upstream stream");
    let (sender, mut connection) = http2::Builder::new(executor)
        .timer(TokioTimer::new())
        .initial_stream_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .max_frame_size(FRAME_BYTES)
        .max_header_list_size(HEADER_BYTES)
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PING_LIMIT)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(stream))
        .await?;
    let max_streams = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
    let told = Arc::clone(&max_streams);
    let watched = std::future::poll_fn(move |context| {
        let polled = Pin::new(&mut connection).poll(context);
        told.store(connection.current_max_send_streams(), Ordering::Relaxed);
        polled
    });
    let course = watch::Sender::new(Course::Open);
    let told = course.clone();
    let driver = async move {
        // The connection is dropped with its queue before the word goes out.
        let result = watched.await;
        told.send_replace(Course::Ended);
        result
    };
    spawn_driver(instance, driver);
    Ok(Wire::Http2(Http2 { sender, max_streams, course }))
}

async fn http1_wire(instance: &Instance, stream: Stream) -> Result<Wire, hyper::Error> {
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(HTTP1_HEADERS)
        .max_header_size(HEADER_BYTES as usize)
        .handshake(TokioIo::new(stream))
        .await?;
    spawn_driver(instance, connection.with_upgrades());
    // A sender counts as busy until its task has run once.
    sender.ready().await?;
    Ok(Wire::Http1(sender))
}

/// The task ends when the connection breaks, or when nobody holds its sender or one of its answers any more.
fn spawn_driver<F>(instance: &Instance, connection: F)
where
    F: Future<Output = Result<(), hyper::Error>> + Send + 'static,
{
    let name = instance.name().to_owned();
    instance.lifecycle.spawn("upstream connection", async move {
        if let Err(error) = connection.await {
            debug!(instance = name, error = &error as &dyn Error, "upstream connection broke");
        }
    });
}

// === impl Wire ===

impl Wire {
    /// Addresses the request to the instance, as this protocol does it; the path stays byte for byte what it is.
    pub(crate) fn address(
        &self,
        instance: &Instance,
        path: &PathAndQuery,
        request: &mut Request<RequestBody>,
    ) -> Result<(), http::Error> {
        let target = &instance.target;
        let path = match target.base_path.as_str() {
            "" => path.clone(),
            // The base itself, which has no slash at its end.
            base if path.path() == "/" => {
                let query = path.query().map(|query| format!("?{query}")).unwrap_or_default();
                PathAndQuery::from_maybe_shared(format!("{base}{query}"))?
            }
            base => PathAndQuery::from_maybe_shared(format!("{base}{path}"))?,
        };
        let authority = target.authority.as_str();
        match self {
            Self::Http2(_) => {
                let scheme = if target.server_name.is_some() { "https" } else { "http" };
                *request.uri_mut() =
                    Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build()?;
                *request.version_mut() = Version::HTTP_2;
                request.headers_mut().remove(header::HOST);
            }
            Self::Http1(_) => {
                *request.uri_mut() = Uri::from(path);
                *request.version_mut() = Version::HTTP_11;
                request.headers_mut().insert(header::HOST, HeaderValue::from_str(authority)?);
            }
        }
        Ok(())
    }

    /// Ready when the connection has come so far. An HTTP/1.1 connection has one request, and never does.
    pub(crate) fn until(&self, course: Course) -> impl Future<Output = ()> + Send + use<> {
        let told = match self {
            Self::Http2(http2) => Some(http2.course.subscribe()),
            Self::Http1(_) => None,
        };
        async move {
            let Some(mut told) = told else { return std::future::pending().await };
            // Without a sender there is no connection.
            drop(told.wait_for(|now| *now >= course).await);
        }
    }

    /// Waits until it takes the next request, once the answer before it has been read.
    pub(crate) async fn ready(&mut self) -> Result<(), hyper::Error> {
        match self {
            Self::Http2(_) => Ok(()),
            Self::Http1(sender) => sender.ready().await,
        }
    }

    /// Sends an addressed request.
    pub(crate) async fn send(&mut self, request: Request<RequestBody>) -> Result<Response<Incoming>, Lost> {
        match self {
            Self::Http2(http2) => http2.sender.try_send_request(request).await,
            Self::Http1(sender) => sender.try_send_request(request).await,
        }
        .map_err(Lost::from)
    }
}

// === impl Http2 ===

impl Http2 {
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// To be called when it is to get no more requests.
    pub(crate) fn close(&self) {
        self.course.send_if_modified(|course| {
            let is_news = *course < Course::Closing;
            *course = (*course).max(Course::Closing);
            is_news
        });
    }

    pub(crate) fn max_streams(&self) -> usize {
        self.max_streams.load(Ordering::Relaxed)
    }
}

// === impl Lost ===

impl From<TrySendError<Request<RequestBody>>> for Lost {
    fn from(mut error: TrySendError<Request<RequestBody>>) -> Self {
        let was_sent = error.take_message().is_none();
        let error = error.into_error();
        match was_sent {
            false => Self::Unsent(error),
            true if is_refusal(&error) => Self::Refused(error),
            true => Self::Sent(error),
        }
    }
}

/// Whether the other end has said that it did not look at this request. h2 fails a stream with the GOAWAY of the other end
/// only if the stream came after the last that this GOAWAY names, or was not begun when it came; the streams before fail
/// when the connection does, and that error is another one. REFUSED_STREAM says it of one stream.
///
/// hyper looks for a GOAWAY once more right after it made the stream. One that comes in this instant, names the stream and
/// so has seen its head is mistaken for a proof; no body was sent by then, and the stream is reset.
fn is_refusal(error: &hyper::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(h2) = error.downcast_ref::<h2::Error>() {
            let is_refused_stream = h2.is_reset() && h2.reason() == Some(h2::Reason::REFUSED_STREAM);
            return h2.is_remote() && (h2.is_go_away() || is_refused_stream);
        }
        cause = error.source();
    }
    false
}
