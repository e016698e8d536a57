//! The front proxy's certificate and key. They are read again when their files change; a connection keeps what it began with.

use std::{path::PathBuf, sync::Arc};

use rustls::{ClientConfig, SignatureScheme, client::ResolvesClientCert, sign::CertifiedKey};
use weir_daemon::{
    Lifecycle,
    followed::{Files, Followed, Reloads},
    tls::{TlsError, certified_key},
};

use super::RequestHeaders;
use crate::upstream::Upstream;

/// Where the pair is, both as PEM, and what upstream calls the headers that come with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontProxyFiles {
    /// The certificate, and what lies between it and upstream's request-header CA.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The names of the headers.
    pub headers: RequestHeaders,
}

/// What makes weir a front proxy.
#[derive(Clone, Debug)]
pub(crate) struct FrontProxy {
    pair: Followed<CertifiedKey, TlsError>,
    headers: RequestHeaders,
}

// === impl FrontProxy ===

impl FrontProxy {
    fn read(files: FrontProxyFiles) -> Result<Self, TlsError> {
        let FrontProxyFiles { certificate, key, headers } = files;
        let files = Files { name: "front-proxy", paths: vec![certificate.clone(), key.clone()] };
        let pair = Followed::read(files, move |contents| {
            certified_key((&certificate, contents.of(&certificate)), (&key, contents.of(&key)))
        })?;
        Ok(Self { pair, headers })
    }

    pub(crate) fn headers(&self) -> &RequestHeaders {
        &self.headers
    }

    /// A configuration that shows nothing, with the certificate.
    pub(crate) fn shown_with(&self, bare: &ClientConfig) -> Arc<ClientConfig> {
        let mut config = bare.clone();
        config.client_auth_cert_resolver = Arc::new(self.clone());
        Arc::new(config)
    }
}

impl ResolvesClientCert for FrontProxy {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.pair.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

// === impl Upstream ===

impl Upstream {
    /// Makes weir a front proxy. To be called once, before anything is asked of upstream.
    pub fn be_front_proxy(
        &self,
        files: FrontProxyFiles,
        lifecycle: &Lifecycle,
        reloads: &Reloads,
    ) -> Result<(), TlsError> {
        let front = FrontProxy::read(files)?;
        front.pair.follow(lifecycle, reloads);
        self.access().set_front(front);
        Ok(())
    }

    /// Whether users whom weir has verified can be passed on.
    pub fn is_front_proxy(&self) -> bool {
        self.access().front().is_some()
    }
}
