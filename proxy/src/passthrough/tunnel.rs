//! Two upgraded connections, joined. Bytes are carried with back-pressure and 16 KB of memory; the end of one direction
//! ends that direction only (`kubectl exec` closes its stdin and still reads), a failure of either leg ends both.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use weir_daemon::Lifecycle;
use weir_upstream::ForwardedBody;

use crate::drain::Client;

/// The two ends of a tunnel.
pub(super) struct Ends {
    pub(super) client: OnUpgrade,
    pub(super) upstream: OnUpgrade,
    /// Held for the place at the instance that it stands for.
    pub(super) place: ForwardedBody,
    /// Counted, so that a drain waits for it.
    pub(super) counted: Client,
}

/// Joins them once both have been upgraded. The task ends with either leg, or when the process is told to stop: nobody
/// can tell a tunnel to finish.
pub(super) fn open(lifecycle: &Lifecycle, ends: Ends) {
    let stop = lifecycle.token().clone();
    lifecycle.spawn("tunnel", join(ends, stop));
}

async fn join(ends: Ends, stop: CancellationToken) {
    let Ends { client, upstream, place: _place, counted: _counted } = ends;
    let (client, upstream) = match tokio::try_join!(client, upstream) {
        Ok(upgraded) => upgraded,
        Err(error) => return debug!(%error, "no tunnel, one end did not upgrade"),
    };
    let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => return,
        ended = tokio::io::copy_bidirectional(&mut client, &mut upstream) => ended,
    };
    match ended {
        Ok((sent, received)) => debug!(sent, received, "tunnel ended"),
        Err(error) => debug!(%error, "tunnel broke"),
    }
}
