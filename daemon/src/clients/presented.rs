//! What a client has shown in its handshake, and whom that makes it now.

use std::{
    fmt::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ring::digest::{SHA256, digest};
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::time::Instant;
use webpki::EndEntityCert;

use super::{Asking, ClientTls, Subject};

/// How long a verdict about a certificate counts on one connection. To verify a chain takes some 0.1 ms; a certificate that
/// expires is good for so much longer.
const VERDICT_LASTS: Duration = Duration::from_secs(5);

/// A certificate that was verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientCertificate {
    /// The SHA-256 of the whole of it, in hexadecimal digits.
    pub sha256: String,
    /// Whose it is.
    pub subject: Subject,
}

/// Whom a certificate makes its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Its subject.
    Verified(Arc<ClientCertificate>),
    /// Nobody: it is of no CA that is trusted, or expired, or not meant for clients, or its subject cannot be read.
    Unknown,
}

/// The certificates of one connection, of which the first is the client's.
pub struct Presented {
    tls: ClientTls,
    chain: Vec<CertificateDer<'static>>,
    verdict: Mutex<Option<Verdict>>,
}

struct Verdict {
    by: Arc<Asking>,
    at: Instant,
    holder: Holder,
}

// === impl Presented ===

impl Presented {
    pub(super) fn new(tls: ClientTls, chain: Vec<CertificateDer<'static>>) -> Self {
        Self { tls, chain, verdict: Mutex::new(None) }
    }

    /// Who the client is by what is trusted now.
    pub fn holder(&self) -> Holder {
        let Some(asking) = self.tls.asking() else { return Holder::Unknown };
        let mut verdict = self.verdict.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Verdict { by, at, holder }) = &*verdict
            && Arc::ptr_eq(by, &asking)
            && at.elapsed() < VERDICT_LASTS
        {
            return holder.clone();
        }
        let holder = self.verify(&asking);
        *verdict = Some(Verdict { by: asking, at: Instant::now(), holder: holder.clone() });
        holder
    }

    fn verify(&self, asking: &Asking) -> Holder {
        let Some((leaf, intermediates)) = self.chain.split_first() else { return Holder::Unknown };
        if let Err(error) = asking.trust.verify_client_cert(leaf, intermediates, UnixTime::now()) {
            tracing::debug!(%error, "certificate of a client is not trusted");
            return Holder::Unknown;
        }
        let subject = EndEntityCert::try_from(leaf).ok().and_then(|leaf| Subject::read(leaf.subject()));
        match subject {
            Some(subject) => {
                Holder::Verified(Arc::new(ClientCertificate { sha256: hexadecimal(leaf), subject }))
            }
            None => {
                tracing::debug!("subject of a client's certificate cannot be read");
                Holder::Unknown
            }
        }
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presented").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

fn hexadecimal(certificate: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in digest(&SHA256, certificate).as_ref() {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    text
}
