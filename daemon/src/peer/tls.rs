//! TLS between weir's processes: both ends show a certificate of one CA, and both verify the other's in the ordinary way.
//! Everybody dials the one name of shard nodes; which shard it is, the node says in its protocol.
//!
//! The files are read again when they change. A connection keeps what it began with, so a certificate that is replaced cuts
//! nobody off, and one that is withdrawn neither: to end what it has opened, processes must be restarted.

use std::{io, path::PathBuf, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::Resumption,
    server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier},
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::caller::{Caller, CallerError, SHARD};
#[cfg(test)]
use crate::followed::Follower;
use crate::{
    Lifecycle,
    followed::{Contents, Files, Followed, Reloads},
    tls::{TlsError, authorities, certificates, private_key, provider},
};

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
pub struct PeerTls(Followed<Loaded, PeerTlsError>);

/// What the files make when they are good.
pub(super) struct Loaded {
    role: Caller,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

/// Why there is no TLS for peers.
#[derive(Debug, thiserror::Error)]
pub enum PeerTlsError {
    /// A file cannot be read, or does not hold what it should.
    #[error("cannot load certificates of peers")]
    Files(#[from] TlsError),
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
        let PeerFiles { ca, certificate, key } = files.clone();
        let followed = Files { name: "peers", paths: vec![ca, certificate, key] };
        Ok(Self(Followed::read(followed, move |contents| Loaded::build(&files, contents))?))
    }

    /// What this process is to its peers.
    pub fn role(&self) -> Caller {
        self.loaded().role
    }

    /// Spawns the task that reads the files again when they have changed, until the process stops.
    pub fn follow(&self, lifecycle: &Lifecycle, reloads: &Reloads) {
        self.0.follow(lifecycle, reloads);
    }

    #[cfg(test)]
    pub(super) fn follower(&self) -> Follower<Loaded, PeerTlsError> {
        self.0.follower(&Reloads::default())
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
        self.0.current()
    }
}

// === impl Loaded ===

impl Loaded {
    fn build(files: &PeerFiles, contents: &Contents) -> Result<Self, PeerTlsError> {
        let roots = Arc::new(authorities(&files.ca, contents.of(&files.ca))?);
        let chain = certificates(&files.certificate, contents.of(&files.certificate))?;
        let role = Caller::of_chain(&chain)
            .map_err(|source| PeerTlsError::Role { path: files.certificate.clone(), source })?;
        let key = private_key(&files.key, contents.of(&files.key))?;
        let server = server_config(Arc::clone(&roots), chain.clone(), key.clone_key())?;
        let client = client_config(roots, chain, key)?;
        Ok(Self { role, acceptor: Arc::new(server).into(), connector: Arc::new(client).into() })
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
