//! TLS between weir's processes: both ends show a certificate of one CA, and both verify the other's in the ordinary way.
//! Everybody dials the one name of shard nodes; which shard it is, the node says in its protocol.
//!
//! The files are read again when they change. A connection keeps what it began with, so a certificate that is replaced cuts
//! nobody off, and one that is withdrawn neither: to end what it has opened, processes must be restarted.

use std::{error::Error, io, path::PathBuf, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::Resumption,
    server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier},
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::{net::TcpStream, sync::watch};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::caller::{Caller, CallerError, SHARD};
use crate::{
    Lifecycle,
    tls::{TlsError, certificates, private_key, provider, unread},
};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

const ALPN: &[u8] = b"h2";

/// Where the certificates of a process are, all as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFiles {
    /// The CAs that peers' certificates are of; two while one replaces the other.
    pub ca: PathBuf,
    /// The certificate of this process, and what lies between it and the CA.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What a process needs to prove itself to its peers and to know them. Clones are the same.
#[derive(Clone)]
pub struct PeerTls(Arc<Shared>);

struct Shared {
    files: PeerFiles,
    current: watch::Sender<Arc<Loaded>>,
}

/// What the files make when they are good.
struct Loaded {
    contents: Contents,
    role: Caller,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

#[derive(Clone, PartialEq, Eq)]
struct Contents {
    ca: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Looks at the files, and remembers what it has complained about.
pub(super) struct Follower {
    tls: PeerTls,
    last: Last,
}

/// What the last look found.
enum Last {
    /// What is in use.
    Fine,
    /// Something that could not be read.
    Unreadable,
    /// Something that could not be used.
    Broken(Contents),
}

/// Why there is no TLS for peers.
#[derive(Debug, thiserror::Error)]
pub enum PeerTlsError {
    /// A file cannot be read, or does not hold what it should.
    #[error("cannot load certificates of peers")]
    Files(#[from] TlsError),
    /// One of the CA's certificates is none.
    #[error("cannot trust what is in {path:?}")]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls::Error,
    },
    /// The CA is of no use for verifying.
    #[error("cannot verify peers with this CA")]
    Verifier(#[from] VerifierBuilderError),
    /// Certificate and key are no pair, or of a kind that is not supported.
    #[error("certificate and key cannot be used")]
    Pair(#[source] rustls::Error),
    /// Peers would refuse the certificate.
    #[error("{path:?} is no certificate of a peer")]
    Role {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: CallerError,
    },
}

/// Why a peer that connected was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum AcceptError {
    #[error("handshake failed")]
    Handshake(#[source] io::Error),
    #[error("peer does not ask for HTTP/2")]
    NoHttp2,
    #[error("peer has no role")]
    Role(#[from] CallerError),
}

// === impl PeerTls ===

impl PeerTls {
    /// With what is in these files now. [`PeerTls::follow`] keeps it up to date.
    pub fn from_files(files: PeerFiles) -> Result<Self, PeerTlsError> {
        let read = |path: &PathBuf| std::fs::read(path).map_err(|source| unread(path, source));
        let contents =
            Contents { ca: read(&files.ca)?, certificate: read(&files.certificate)?, key: read(&files.key)? };
        let loaded = Loaded::build(&files, contents)?;
        Ok(Self(Arc::new(Shared { files, current: watch::Sender::new(Arc::new(loaded)) })))
    }

    /// What this process is to its peers.
    pub fn role(&self) -> Caller {
        self.loaded().role
    }

    /// Spawns the task that reads the files again when they have changed. It ends when the process stops. What cannot be
    /// used is warned of once, and the old goes on.
    pub fn follow(&self, lifecycle: &Lifecycle) {
        let follower = Follower::new(self.clone());
        lifecycle.spawn("peer certificates", follower.run(lifecycle.token().clone()));
    }

    /// The handshake with somebody who has connected.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<(server::TlsStream<TcpStream>, Caller), AcceptError> {
        let acceptor = self.loaded().acceptor.clone();
        let stream = acceptor.accept(stream).await.map_err(AcceptError::Handshake)?;
        let session = stream.get_ref().1;
        if session.alpn_protocol() != Some(ALPN) {
            return Err(AcceptError::NoHttp2);
        }
        let caller = Caller::of_chain(session.peer_certificates().unwrap_or_default())?;
        Ok((stream, caller))
    }

    /// The handshake with a node that was dialed. That it succeeds does not mean that the node takes our certificate: in
    /// TLS 1.3 a client is done before the server has seen it.
    pub(super) async fn connect(&self, stream: TcpStream) -> io::Result<client::TlsStream<TcpStream>> {
        let connector = self.loaded().connector.clone();
        let stream =
            connector.connect(ServerName::try_from(SHARD).map_err(io::Error::other)?, stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err(io::Error::other("peer does not speak HTTP/2"));
        }
        Ok(stream)
    }

    fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.0.current.borrow())
    }
}

// === impl Loaded ===

impl Loaded {
    fn build(files: &PeerFiles, contents: Contents) -> Result<Self, PeerTlsError> {
        let mut roots = RootCertStore::empty();
        for ca in certificates(&files.ca, &contents.ca)? {
            roots.add(ca).map_err(|source| PeerTlsError::Authority { path: files.ca.clone(), source })?;
        }
        let roots = Arc::new(roots);
        let chain = certificates(&files.certificate, &contents.certificate)?;
        let role = Caller::of_chain(&chain)
            .map_err(|source| PeerTlsError::Role { path: files.certificate.clone(), source })?;
        let key = private_key(&files.key, &contents.key)?;
        let server = server_config(Arc::clone(&roots), chain.clone(), key.clone_key())?;
        let client = client_config(roots, chain, key)?;
        Ok(Self { contents, role, acceptor: Arc::new(server).into(), connector: Arc::new(client).into() })
    }
}

// === impl Follower ===

impl Follower {
    pub(super) fn new(tls: PeerTls) -> Self {
        Self { tls, last: Last::Fine }
    }

    async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            self.look().await;
        }
    }

    /// Reads the files, and takes what is new in them if it can be used.
    pub(super) async fn look(&mut self) {
        let Shared { files, current } = &*self.tls.0;
        let contents = match Contents::read(files).await {
            Ok(contents) => contents,
            Err(error) => {
                if !matches!(self.last, Last::Unreadable) {
                    let error: &dyn Error = &error;
                    warn!(error, "certificates of peers cannot be read, the old ones go on");
                }
                self.last = Last::Unreadable;
                return;
            }
        };
        if contents == current.borrow().contents {
            self.last = Last::Fine;
            return;
        }
        if matches!(&self.last, Last::Broken(broken) if *broken == contents) {
            return;
        }
        match Loaded::build(files, contents.clone()) {
            Ok(loaded) => {
                info!(role = %loaded.role, "new certificates of peers are in use");
                current.send_replace(Arc::new(loaded));
                self.last = Last::Fine;
            }
            Err(error) => {
                let error: &dyn Error = &error;
                warn!(error, "new certificates of peers cannot be used, the old ones go on");
                self.last = Last::Broken(contents);
            }
        }
    }
}

// === impl Contents ===

impl Contents {
    async fn read(files: &PeerFiles) -> Result<Self, TlsError> {
        let read = async |path: &PathBuf| tokio::fs::read(path).await.map_err(|source| unread(path, source));
        Ok(Self {
            ca: read(&files.ca).await?,
            certificate: read(&files.certificate).await?,
            key: read(&files.key).await?,
        })
    }
}

fn server_config(
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, PeerTlsError> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build()?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(PeerTlsError::Pair)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(PeerTlsError::Pair)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

fn client_config(
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ClientConfig, PeerTlsError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(PeerTlsError::Pair)?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(PeerTlsError::Pair)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}
