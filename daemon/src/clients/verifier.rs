//! How a client's certificate is verified: not by its handshake, which only proves that the client has the key, but when
//! somebody wants to know who the client is.

use std::{path::Path, sync::Arc};

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::tls::{TlsError, authorities, provider};

/// The CAs that a client's certificate may be of.
pub(super) type Trust = Arc<dyn ClientCertVerifier>;

/// Takes any certificate or none, from whoever has its key.
#[derive(Debug)]
pub(super) struct AnyCertificate(pub(super) Trust);

/// The CAs in a file.
pub(super) fn trust(path: &Path, pem: &[u8]) -> Result<Trust, TlsError> {
    let roots = Arc::new(authorities(path, pem)?);
    Ok(WebPkiClientVerifier::builder_with_provider(roots, provider()).build()?)
}

// === impl AnyCertificate ===

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// Clients with several certificates choose by them.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
