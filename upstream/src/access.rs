//! What weir shows to upstream: TLS configurations and headers, made by kube from the configuration, and made again when
//! upstream says 401 or when they are known to change on disk. There are three sorts of TLS configuration, and only one
//! holds weir's client certificate: a request of somebody else on another sort can never be taken for weir's. The third holds
//! the certificate of the front proxy, if weir is one.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use http_body_util::Empty;
use kube::{Config, client::ConfigExt, config::AuthInfo};
use rustls::{ClientConfig, client::Resumption};
use tokio::{sync::Semaphore, time::Instant};
use tower::{Layer, ServiceExt, service_fn, util::BoxCloneSyncService};
use tracing::{info, warn};

use crate::{
    error::{BoxError, LoadError},
    front::FrontProxy,
    kubeconfig::Origin,
};

/// Credentials that can change on disk without a word are read again when they are this old.
const SHORT_LIFE: Duration = Duration::from_secs(60);

/// Between two renewals because of a 401: a user without rights must not make a plugin run for each request.
const RENEWAL_PAUSE: Duration = Duration::from_secs(5);

type HeaderSource = BoxCloneSyncService<Request<Empty<Bytes>>, Response<HeaderMap>, BoxError>;

/// Whose TLS configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// weir's own, with its client certificate.
    Own,
    /// Nobody's.
    Bare,
    /// Nobody's, and HTTP/1.1 only, for upgrades.
    BareHttp1,
    /// The front proxy's.
    Front,
    /// The front proxy's, and HTTP/1.1 only.
    FrontHttp1,
}

/// The current credentials and the way to newer ones.
#[derive(Debug)]
pub(crate) struct Access {
    origin: Origin,
    current: ArcSwap<Credentials>,
    /// One permit: one renewal at a time.
    renewing: Semaphore,
    renewed: Mutex<Option<Instant>>,
    front: OnceLock<FrontProxy>,
}

/// One reading of the credentials.
pub(crate) struct Credentials {
    generation: u64,
    own: Arc<ClientConfig>,
    bare: Arc<ClientConfig>,
    bare_http1: Arc<ClientConfig>,
    headers: HeaderSource,
    user: AuthInfo,
    read: Instant,
    is_short_lived: bool,
}

/// Headers to send, and the generation they are of.
#[derive(Debug)]
pub(crate) struct ShownHeaders {
    pub(crate) generation: u64,
    pub(crate) headers: HeaderMap,
}

// === impl Identity ===

impl Identity {
    /// The same where only HTTP/1.1 will do.
    pub(crate) fn over_http1(self) -> Self {
        match self {
            Self::Bare | Self::BareHttp1 => Self::BareHttp1,
            Self::Front | Self::FrontHttp1 => Self::FrontHttp1,
            Self::Own => Self::Own,
        }
    }

    pub(crate) fn is_front(self) -> bool {
        matches!(self, Self::Front | Self::FrontHttp1)
    }
}

// === impl Access ===

impl Access {
    /// Makes credentials of a configuration that `origin` gave.
    pub(crate) async fn new(origin: Origin, config: Config) -> Result<Self, LoadError> {
        let credentials = Credentials::make(config, 0).await?;
        Ok(Self {
            origin,
            current: ArcSwap::from_pointee(credentials),
            renewing: Semaphore::new(1),
            renewed: Mutex::new(None),
            front: OnceLock::new(),
        })
    }

    pub(crate) fn tls(&self, identity: Identity) -> Arc<ClientConfig> {
        let current = self.current.load();
        // Without a front proxy there is nothing to show, and upstream takes the connection for nobody's.
        let front = |bare: &Arc<ClientConfig>| match self.front() {
            Some(front) => front.shown_with(bare),
            None => Arc::clone(bare),
        };
        match identity {
            Identity::Own => Arc::clone(&current.own),
            Identity::Bare => Arc::clone(&current.bare),
            Identity::BareHttp1 => Arc::clone(&current.bare_http1),
            Identity::Front => front(&current.bare),
            Identity::FrontHttp1 => front(&current.bare_http1),
        }
    }

    pub(crate) fn front(&self) -> Option<&FrontProxy> {
        self.front.get()
    }

    /// The first one stays.
    pub(crate) fn set_front(&self, front: FrontProxy) {
        let _ = self.front.set(front);
    }

    pub(crate) fn user(&self) -> AuthInfo {
        self.current.load().user.clone()
    }

    /// Whether weir shows a client certificate.
    pub(crate) fn has_client_certificate(&self) -> bool {
        self.current.load().own.client_auth_cert_resolver.has_certs()
    }

    /// Reads credentials again that may have changed on disk by now. Old ones are kept when that fails.
    pub(crate) async fn keep_fresh(&self) {
        let (generation, is_old) = {
            let current = self.current.load();
            (current.generation, current.is_short_lived && current.read.elapsed() >= SHORT_LIFE)
        };
        if is_old {
            self.renew(generation).await;
        }
    }

    /// The headers that identify weir: `Authorization`, and `Impersonate-*` where the configuration says so.
    pub(crate) async fn headers(&self) -> Result<ShownHeaders, BoxError> {
        self.keep_fresh().await;
        let (generation, source) = {
            let current = self.current.load();
            (current.generation, current.headers.clone())
        };
        let headers = source.oneshot(Request::new(Empty::new())).await?.into_body();
        Ok(ShownHeaders { generation, headers })
    }

    /// Called with the generation that upstream refused. Whether there are newer credentials now.
    pub(crate) async fn renew_refused(&self, generation: u64) -> bool {
        let is_early = {
            let renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
            renewed.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE)
        };
        if !is_early {
            self.renew(generation).await;
        }
        self.current.load().generation > generation
    }

    async fn renew(&self, seen: u64) {
        let Ok(_turn) = self.renewing.acquire().await else { return };
        if self.current.load().generation > seen {
            return;
        }
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let made = match self.origin.read().await {
            Ok(config) => Credentials::make(config, seen + 1).await,
            Err(error) => Err(error),
        };
        match made {
            Ok(credentials) => {
                info!(generation = credentials.generation, "read the credentials again");
                self.current.store(Arc::new(credentials));
            }
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot read the credentials again, keeping the old"
                );
            }
        }
    }
}

// === impl Credentials ===

impl Credentials {
    /// Runs the user's plugin, if there is one, so it is made on a thread that may block.
    async fn make(config: Config, generation: u64) -> Result<Self, LoadError> {
        tokio::task::spawn_blocking(move || Self::make_blocking(config, generation))
            .await
            .map_err(LoadError::Interrupted)?
    }

    fn make_blocking(mut config: Config, generation: u64) -> Result<Self, LoadError> {
        // kube builds with the default provider of the process, so that must be ours by now.
        weir_daemon::tls::provider();
        let user = config.auth_info.clone();
        let is_token_file = take_token_file(&mut config.auth_info)?;
        let own = tls_config(&config)?;
        let headers = header_source(&config)?;
        let is_plugin_certificate = user.exec.is_some() && own.client_auth_cert_resolver.has_certs();
        config.auth_info = AuthInfo::default();
        let bare = tls_config(&config)?;
        let mut bare_http1 = bare.clone();
        bare_http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            generation,
            own: Arc::new(own),
            bare: Arc::new(bare),
            bare_http1: Arc::new(bare_http1),
            headers,
            user,
            read: Instant::now(),
            is_short_lived: is_token_file || is_plugin_certificate,
        })
    }
}

impl std::fmt::Debug for Credentials {
    /// Secrets stay out of it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// Reads the token file here: kube keeps a line feed at its end, which no header can carry, and reads it again after a
/// minute at the earliest, also when upstream has refused the token. As in client-go the file wins over a token.
fn take_token_file(user: &mut AuthInfo) -> Result<bool, LoadError> {
    let Some(path) = user.token_file.take() else { return Ok(false) };
    let text = std::fs::read_to_string(&path)
        .map_err(|source| LoadError::TokenFile { path: path.into(), source })?;
    user.token = Some(text.trim().to_owned().into());
    Ok(true)
}

fn tls_config(config: &Config) -> Result<ClientConfig, LoadError> {
    let mut tls = config.rustls_client_config().map_err(credentials_error)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session keeps the identity of its first handshake.
    tls.resumption = Resumption::disabled();
    Ok(tls)
}

/// kube's layers around a service that answers with the headers it was asked with.
fn header_source(config: &Config) -> Result<HeaderSource, LoadError> {
    let echo = service_fn(|request: Request<Empty<Bytes>>| async move {
        let mut headers = request.into_parts().0.headers;
        if let Some(value) = headers.get_mut(header::AUTHORIZATION) {
            value.set_sensitive(true);
        }
        Ok::<_, BoxError>(Response::new(headers))
    });
    let source = config.extra_headers_layer().map_err(credentials_error)?.layer(echo);
    Ok(match config.auth_layer().map_err(credentials_error)? {
        Some(layer) => BoxCloneSyncService::new(layer.layer(source)),
        None => BoxCloneSyncService::new(source),
    })
}

fn credentials_error(error: kube::Error) -> LoadError {
    LoadError::Credentials(Box::new(error))
}

#[cfg(test)]
mod tests;
