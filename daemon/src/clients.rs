//! Where clients connect: the address, the certificate that they are shown, and what is made of theirs. Files are read again
//! when they change; connections that are open keep what they began with.
//!
//! A client certificate never fails a handshake here, as it never does at kube-apiserver: one that is not trusted is answered
//! 401 on the request, and only if no token comes with it. [`Presented::holder`] is asked for each request, since certificates
//! expire and CAs are replaced while connections stay open.

mod presented;
mod subject;
#[cfg(test)]
mod tests;
mod verifier;

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig,
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, danger::ClientCertVerifier},
    sign::CertifiedKey,
};
use rustls_pki_types::CertificateDer;

use self::verifier::{AnyCertificate, Trust};
pub use self::{
    presented::{ClientCertificate, Holder, Presented},
    subject::Subject,
};
use crate::{
    Lifecycle, Listener, SocketOptions,
    followed::{Files, Followed, Reloads},
    listener::ListenError,
    tls::{ALPN, SelfMade, TlsError, certified_key, provider},
};

/// Which certificate clients are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerCertificate {
    /// One of the operator's, in PEM files.
    Files {
        /// The chain.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// One that is made at the start, because the operator wants it, for these names and those of loopback.
    SelfSigned {
        /// DNS names and addresses.
        names: Vec<String>,
    },
    /// One that is made at the start since there is none. It is good on this machine, and so is the listener.
    Loopback,
}

/// TLS of the listener. Clones are the same.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<Inner>);

struct Inner {
    shown: Arc<Shown>,
    asked: Asked,
    ca_pem: Option<String>,
    is_for_loopback: bool,
}

/// The certificate that clients are shown.
#[derive(Debug)]
enum Shown {
    Made(Arc<CertifiedKey>),
    Followed(Followed<CertifiedKey, TlsError>),
}

/// Whether clients are asked for certificates.
enum Asked {
    No(Arc<ServerConfig>),
    Yes(Followed<Asking, TlsError>),
}

/// What one content of the CA's file makes.
struct Asking {
    config: Arc<ServerConfig>,
    trust: Trust,
}

/// A bound address where clients connect, with the rule of who can: without a certificate that somebody chose it is one of
/// this machine.
#[derive(Debug)]
pub struct ClientPort {
    listener: Listener,
    tls: ClientTls,
}

// === impl ClientTls ===

impl ClientTls {
    /// With this certificate. With a CA, clients are asked for certificates of it, which they need not have.
    pub fn new(certificate: ListenerCertificate, client_ca: Option<PathBuf>) -> Result<Self, TlsError> {
        let is_for_loopback = certificate == ListenerCertificate::Loopback;
        let (shown, ca_pem) = Shown::new(certificate)?;
        let shown = Arc::new(shown);
        let asked = match client_ca {
            None => Asked::No(Arc::new(server_config(shown.clone(), None)?)),
            Some(ca) => Asked::Yes(asking(&shown, ca)?),
        };
        Ok(Self(Arc::new(Inner { shown, asked, ca_pem, is_for_loopback })))
    }

    /// Spawns the tasks that read the files again when they have changed, until the process stops.
    pub fn follow(&self, lifecycle: &Lifecycle, reloads: &Reloads) {
        if let Shown::Followed(pair) = &*self.0.shown {
            pair.follow(lifecycle, reloads);
        }
        if let Asked::Yes(asking) = &self.0.asked {
            asking.follow(lifecycle, reloads);
        }
    }

    /// The CA that clients must trust, when the certificate was made here.
    pub fn ca_pem(&self) -> Option<&str> {
        self.0.ca_pem.as_deref()
    }

    /// Whether clients are asked for certificates.
    pub fn asks(&self) -> bool {
        matches!(self.0.asked, Asked::Yes(_))
    }

    /// What the next handshake is made with.
    pub fn config(&self) -> Arc<ServerConfig> {
        match &self.0.asked {
            Asked::No(config) => config.clone(),
            Asked::Yes(asking) => asking.current().config.clone(),
        }
    }

    /// What a client has shown in its handshake; `None` without a certificate.
    pub fn presented(&self, chain: Option<&[CertificateDer<'_>]>) -> Option<Presented> {
        let chain = chain.filter(|chain| !chain.is_empty())?;
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned());
        self.asks().then(|| Presented::new(self.clone(), chain.collect()))
    }

    fn asking(&self) -> Option<Arc<Asking>> {
        match &self.0.asked {
            Asked::No(_) => None,
            Asked::Yes(asking) => Some(asking.current()),
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("shown", &self.shown).finish_non_exhaustive()
    }
}

// === impl Shown ===

impl Shown {
    fn new(certificate: ListenerCertificate) -> Result<(Self, Option<String>), TlsError> {
        let names = match certificate {
            ListenerCertificate::Files { certificate, key } => {
                let files = Files { name: "listener", paths: vec![certificate.clone(), key.clone()] };
                let pair = Followed::read(files, move |contents| {
                    certified_key((&certificate, contents.of(&certificate)), (&key, contents.of(&key)))
                })?;
                return Ok((Self::Followed(pair), None));
            }
            ListenerCertificate::SelfSigned { names } => names,
            ListenerCertificate::Loopback => Vec::new(),
        };
        let SelfMade { chain, key, ca_pem } = SelfMade::new(&names)?;
        let pair = CertifiedKey::from_der(chain, key, &provider()).map_err(TlsError::Pair)?;
        Ok((Self::Made(Arc::new(pair)), Some(ca_pem)))
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(match self {
            Self::Made(pair) => pair.clone(),
            Self::Followed(pair) => pair.current(),
        })
    }
}

// === impl ClientPort ===

impl ClientPort {
    /// Binds an address; port 0 takes a free one. Must be called inside the runtime.
    pub fn bind(address: SocketAddr, tls: ClientTls) -> Result<Self, ListenError> {
        let bind = if tls.0.is_for_loopback { Listener::bind } else { Listener::bind_anywhere };
        Ok(Self { listener: bind(address, SocketOptions::default())?, tls })
    }

    /// The address bound, with the port that was taken.
    pub fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// Where connections come from.
    pub fn listener(&self) -> &Listener {
        &self.listener
    }

    /// What is spoken on them.
    pub fn tls(&self) -> &ClientTls {
        &self.tls
    }
}

fn asking(shown: &Arc<Shown>, ca: PathBuf) -> Result<Followed<Asking, TlsError>, TlsError> {
    let files = Files { name: "client-ca", paths: vec![ca.clone()] };
    let shown = shown.clone();
    Followed::read(files, move |contents| {
        let trust = verifier::trust(&ca, contents.of(&ca))?;
        let config = server_config(shown.clone(), Some(trust.clone()))?;
        Ok(Asking { config: Arc::new(config), trust })
    })
}

/// No session is resumed: the identity of a client is that of its own handshake.
fn server_config(shown: Arc<Shown>, trust: Option<Trust>) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)?;
    let builder = match trust {
        None => builder.with_no_client_auth(),
        Some(trust) => {
            let any: Arc<dyn ClientCertVerifier> = Arc::new(AnyCertificate(trust));
            builder.with_client_cert_verifier(any)
        }
    };
    let mut config = builder.with_cert_resolver(shown);
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}
