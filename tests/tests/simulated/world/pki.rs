//! Certificates of clients, of those whom nobody knows, and of weir as a front proxy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::sign::CertifiedKey;
use rustls_pki_types::PrivatePkcs8KeyDer;
use weir_upstream::{FrontProxyFiles, RequestHeaders};

/// A certificate that a client shows.
pub(crate) type Shown = Arc<CertifiedKey>;

type Ca = CertifiedIssuer<'static, KeyPair>;

/// The CAs of a world.
pub(crate) struct Pki {
    clients: Ca,
    strangers: Ca,
    /// The front proxy's, in DER.
    pub(crate) front: Vec<u8>,
    directory: PathBuf,
}

// === impl Pki ===

impl Pki {
    pub(super) fn new(directory: &Path) -> Self {
        let (clients, strangers, proxies) = (ca("clients"), ca("strangers"), ca("proxies"));
        std::fs::write(directory.join("client-ca.crt"), clients.pem()).unwrap();
        std::fs::write(directory.join("proxy-ca.crt"), proxies.pem()).unwrap();
        let key = KeyPair::generate().unwrap();
        let front = leaf("front-proxy", &[]).signed_by(&key, &proxies).unwrap();
        std::fs::write(directory.join("front.crt"), front.pem()).unwrap();
        std::fs::write(directory.join("front.key"), key.serialize_pem()).unwrap();
        Self { clients, strangers, front: front.der().to_vec(), directory: directory.to_owned() }
    }

    /// What clients' certificates are verified against.
    pub(super) fn client_ca(&self) -> PathBuf {
        self.directory.join("client-ca.crt")
    }

    /// What upstream asks a front proxy for.
    pub(super) fn proxy_ca(&self) -> PathBuf {
        self.directory.join("proxy-ca.crt")
    }

    pub(super) fn front_proxy(&self) -> FrontProxyFiles {
        FrontProxyFiles {
            certificate: self.directory.join("front.crt"),
            key: self.directory.join("front.key"),
            headers: RequestHeaders::default(),
        }
    }

    /// A certificate of a user with at most two groups.
    pub(crate) fn client(&self, name: &str, groups: &[&str]) -> Shown {
        shown(&self.clients, &leaf(name, groups))
    }

    /// One of a CA that weir does not know.
    pub(crate) fn stranger(&self, name: &str) -> Shown {
        shown(&self.strangers, &leaf(name, &["system:masters"]))
    }

    /// A certificate that is good for some seconds yet.
    pub(crate) fn expiring(&self, name: &str, lasts: Duration) -> Shown {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mut params = leaf(name, &[]);
        params.not_after = date_time_ymd(1970, 1, 1) + since_epoch + lasts;
        shown(&self.clients, &params)
    }

    /// One that was good once.
    pub(crate) fn expired(&self, name: &str) -> Shown {
        let mut params = leaf(name, &["system:masters"]);
        params.not_after = date_time_ymd(2020, 1, 1);
        shown(&self.clients, &params)
    }
}

fn ca(name: &str) -> Ca {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn leaf(name: &str, groups: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    // rcgen takes an attribute once; by its number it is another one.
    let attributes = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    for (attribute, group) in attributes.into_iter().zip(groups) {
        params.distinguished_name.push(attribute, *group);
    }
    params.distinguished_name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "7-7");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn shown(ca: &Ca, params: &CertificateParams) -> Shown {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, ca).unwrap();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let provider = weir_daemon::tls::provider();
    Arc::new(CertifiedKey::from_der(vec![certificate.der().clone()], key, &provider).unwrap())
}
