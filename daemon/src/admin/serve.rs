//! The connections of operators. Each carries one request: they are rare, and so one limit of time bounds a whole
//! connection, from the first byte of the head to the last of the answer, whatever its peer does.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Semaphore,
    time::timeout,
};
use tracing::debug;

use super::{State, pages};
use crate::{Lifecycle, Listener};

/// Connections at once; more wait to be accepted, for [`LIMITS`]' time at most. Each takes some 16 KiB and, for metrics,
/// the text of them.
pub(super) const CONNECTIONS: usize = 32;

/// The limits of one connection.
pub(super) struct Limits {
    /// From accepting to the end.
    pub(super) time: Duration,
    /// Bytes of a request's head; a longer one is refused with 431. The least that hyper takes.
    pub(super) head_bytes: usize,
    /// Header fields of a request; more are refused with 431.
    pub(super) headers: usize,
}

/// A probe waits a second, a scrape ten.
pub(super) const LIMITS: Limits = Limits { time: Duration::from_secs(10), head_bytes: 8 << 10, headers: 64 };

/// Accepts until told to stop.
pub(super) async fn run(listener: Listener, state: State, lifecycle: Lifecycle) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let next = async || {
        let place = Arc::clone(&places).acquire_owned().await.expect("never closed");
        (place, listener.accept().await.0)
    };
    loop {
        let (place, stream) = tokio::select! {
            biased;
            () = lifecycle.token().cancelled() => return,
            next = next() => next,
        };
        let state = state.clone();
        lifecycle.spawn("admin connection", async move {
            connection(stream, state).await;
            drop(place);
        });
    }
}

/// Ends after one answer, or when its time is over.
pub(super) async fn connection<I>(io: I, state: State)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let state = state.clone();
        async move { Ok::<_, Infallible>(pages::answer(&request, &state).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .keep_alive(false)
        // The limit of the whole connection stands for it, and needs no timer of hyper's.
        .header_read_timeout(None)
        .max_buf_size(LIMITS.head_bytes)
        .max_headers(LIMITS.headers);
    match timeout(LIMITS.time, builder.serve_connection(TokioIo::new(io), service)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let error: &dyn std::error::Error = &error;
            debug!(error, "connection of an operator ended");
        }
        Err(_) => debug!("operator took too long"),
    }
}
