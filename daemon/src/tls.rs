//! The base of all TLS here: certificates and keys as files hold them, and a server's configuration that never changes. There is one crypto provider in the process, [`provider`], and every configuration is built
//! with it by name: rustls would otherwise panic the day a dependency brings a second one.
//!
//! Sessions are never resumed: a resumed session keeps the identity of its first handshake, also when the certificate
//! or the client CA has been replaced since. Watches live long, so a full handshake costs little.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::{NoServerSessionStorage, VerifierBuilderError},
    sign::CertifiedKey,
};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer,
    pem::{self, PemObject},
};

/// The names that every self-made certificate is good for.
const SELF_MADE_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// HTTP/2 first; HTTP/1.1 for upgrades and old clients.
pub(crate) const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// What a listener needs to speak TLS.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// For the acceptor.
    pub config: Arc<ServerConfig>,
    /// The CA that clients must trust, when the certificate was made here.
    pub ca_pem: Option<String>,
}

/// A certificate that was made here.
pub(crate) struct SelfMade {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    /// The CA that whoever connects must trust.
    pub(crate) ca_pem: String,
}

/// Why there is no TLS configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is no PEM.
    #[error("cannot read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: pem::Error,
    },
    /// The certificate file holds no certificate.
    #[error("there is no certificate in {path:?}")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key are no pair, or of a kind that is not supported.
    #[error("certificate and key cannot be used")]
    Pair(#[source] rustls::Error),
    /// One of a CA's certificates is none.
    #[error("cannot trust what is in {path:?}")]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls::Error,
    },
    /// The CA is of no use for verifying.
    #[error("cannot verify clients with this CA")]
    Verifier(#[from] VerifierBuilderError),
    /// No certificate could be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
}

/// The crypto provider of the process, ring. It also becomes the default of dependencies that ask for one by no name.
pub fn provider() -> Arc<CryptoProvider> {
    if let Some(installed) = CryptoProvider::get_default() {
        return Arc::clone(installed);
    }
    // Two threads may come here at once; the second install fails, and both take what is installed.
    let _ = ring::default_provider().install_default();
    CryptoProvider::get_default().map_or_else(|| Arc::new(ring::default_provider()), Arc::clone)
}

// === impl ServerTls ===

impl ServerTls {
    /// With the certificate chain and the key in these PEM files.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| std::fs::read(path).map_err(|source| unread(path, source));
        let chain = certificates(certificate, &read(certificate)?)?;
        let key = private_key(key, &read(key)?)?;
        Ok(Self { config: server_config(chain, key)?, ca_pem: None })
    }

    /// With a certificate for localhost, of a CA that exists for this one certificate: its key is forgotten here.
    pub fn self_made() -> Result<Self, TlsError> {
        let SelfMade { chain, key, ca_pem } = SelfMade::new(&[])?;
        Ok(Self { config: server_config(chain, key)?, ca_pem: Some(ca_pem) })
    }
}

// === impl SelfMade ===

impl SelfMade {
    /// For localhost and for more names.
    pub(crate) fn new(names: &[String]) -> Result<Self, TlsError> {
        let ca_key = KeyPair::generate()?;
        let ca_params = ca_params("weir local CA");
        let ca = ca_params.self_signed(&ca_key)?;
        let leaf_key = KeyPair::generate()?;
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let names: Vec<&str> = SELF_MADE_NAMES.into_iter().chain(names.iter().map(String::as_str)).collect();
        let leaf = leaf_params(&names, usages)?.signed_by(&leaf_key, &Issuer::new(ca_params, ca_key))?;
        let key = PrivatePkcs8KeyDer::from(leaf_key.serialize_der()).into();
        Ok(Self { chain: vec![leaf.der().clone()], key, ca_pem: ca.pem() })
    }
}

/// A certificate with its key, of a chain and a key as files hold them. They are a pair.
pub fn certified_key(
    (certificate, chain): (&Path, &[u8]),
    (key_file, key): (&Path, &[u8]),
) -> Result<CertifiedKey, TlsError> {
    let (chain, key) = (certificates(certificate, chain)?, private_key(key_file, key)?);
    CertifiedKey::from_der(chain, key, &provider()).map_err(TlsError::Pair)
}

/// The CAs in what was read from a file.
pub(crate) fn authorities(path: &Path, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for ca in certificates(path, pem)? {
        roots.add(ca).map_err(|source| TlsError::Authority { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

/// The certificates in what was read from a file; at least one.
pub(crate) fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|source| unreadable(path, source))?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate { path: path.to_owned() });
    }
    Ok(found)
}

/// The first private key in what was read from a file.
pub(crate) fn private_key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|source| unreadable(path, source))
}

/// A file could not be read.
pub(crate) fn unread(path: &Path, source: io::Error) -> TlsError {
    unreadable(path, pem::Error::Io(source))
}

fn unreadable(path: &Path, source: pem::Error) -> TlsError {
    TlsError::Read { path: path.to_owned(), source }
}

/// A CA that signs leaves and no other CA.
pub(crate) fn ca_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A certificate for these names.
pub(crate) fn leaf_params(
    names: &[&str],
    usages: Vec<ExtendedKeyUsagePurpose>,
) -> Result<CertificateParams, rcgen::Error> {
    let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "weir");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usages;
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Pair)?;
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests;
