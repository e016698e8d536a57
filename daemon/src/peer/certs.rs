//! A CA of weir's own and the certificates of its processes, for trying weir and for tests. Everybody who has a certificate
//! of this CA with the name of a role is that role, so a CA that signs anything else must not be used for peers.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, date_time_ymd};
use weir_core::Slot;

use super::caller::{PROXY, SHARD, shard_name};
use crate::tls::{ca_params, leaf_params};

/// How long a CA and its certificates are good.
const VALID_FOR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// They are good from so long ago, for machines whose clocks differ.
const VALID_BEFORE: Duration = Duration::from_secs(60 * 60);

/// Who may read a file.
#[derive(Clone, Copy)]
enum Secrecy {
    Public,
    Owner,
}

/// A CA for peers. It can sign as long as this value lives.
pub struct PeerCa {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both as PEM.
pub struct PeerIdentity {
    /// The certificate; there is nothing between it and the CA.
    pub certificate_pem: String,
    /// Its private key.
    pub key_pem: String,
}

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    /// No certificate could be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// So many shards there cannot be, or not the one that was asked for.
    #[error("there is no shard {index} of {count}: weir has from 1 to {} shards", Slot::COUNT)]
    NoSuchShard {
        /// The one asked for.
        index: usize,
        /// Of so many.
        count: usize,
    },
    /// The file is there already; nothing is overwritten.
    #[error("{path:?} exists already, and is not overwritten")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file or the directory cannot be written.
    #[error("cannot write {path:?}")]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

// === impl PeerCa ===

impl PeerCa {
    /// A new one.
    pub fn generate() -> Result<Self, CertsError> {
        let key = KeyPair::generate()?;
        let mut params = ca_params("weir peer CA");
        limit_validity(&mut params);
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { pem, issuer: Issuer::new(params, key) })
    }

    /// Its certificate, which all peers trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// For a proxy.
    pub fn proxy(&self) -> Result<PeerIdentity, CertsError> {
        self.sign(&[PROXY])
    }

    /// For the nodes of one shard; `index` counts from 0.
    pub fn shard(&self, index: usize, count: usize) -> Result<PeerIdentity, CertsError> {
        if index >= count || count > Slot::COUNT {
            return Err(CertsError::NoSuchShard { index, count });
        }
        self.sign(&[SHARD, &shard_name(index, count)])
    }

    /// For any names: what is no role is refused by peers.
    pub(super) fn sign(&self, names: &[&str]) -> Result<PeerIdentity, CertsError> {
        let key = KeyPair::generate()?;
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let mut params = leaf_params(names, usages)?;
        limit_validity(&mut params);
        let certificate_pem = params.signed_by(&key, &self.issuer)?.pem();
        Ok(PeerIdentity { certificate_pem, key_pem: key.serialize_pem() })
    }
}

// === impl PeerIdentity ===

impl PeerIdentity {
    /// Writes `NAME.crt` and `NAME.key` into a directory.
    pub fn write(&self, directory: &Path, name: &str) -> Result<(), CertsError> {
        let path = |extension| directory.join(format!("{name}.{extension}"));
        write_new(path("key"), &self.key_pem, Secrecy::Owner)?;
        write_new(path("crt"), &self.certificate_pem, Secrecy::Public)
    }
}

/// Makes a CA with certificates for a proxy and for each of so many shards, in a directory that it makes if need be. Keys are
/// for their owner alone. No file is overwritten: the CA whose key is there may have signed what is in use.
pub fn write_trial(directory: &Path, shards: usize) -> Result<(), CertsError> {
    if shards == 0 || shards > Slot::COUNT {
        return Err(CertsError::NoSuchShard { index: 0, count: shards });
    }
    fs::create_dir_all(directory)
        .map_err(|source| CertsError::Write { path: directory.to_owned(), source })?;
    let ca = PeerCa::generate()?;
    write_new(directory.join("ca.key"), &ca.issuer.key().serialize_pem(), Secrecy::Owner)?;
    write_new(directory.join("ca.crt"), ca.pem(), Secrecy::Public)?;
    ca.proxy()?.write(directory, "proxy")?;
    for index in 0..shards {
        ca.shard(index, shards)?.write(directory, &format!("shard-{index}"))?;
    }
    Ok(())
}

fn write_new(path: PathBuf, text: &str, secrecy: Secrecy) -> Result<(), CertsError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(match secrecy {
            Secrecy::Public => 0o644,
            Secrecy::Owner => 0o600,
        });
    }
    match options.open(&path).and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => Ok(()),
        Err(source) if source.kind() == io::ErrorKind::AlreadyExists => Err(CertsError::Exists { path }),
        Err(source) => Err(CertsError::Write { path, source }),
    }
}

/// A clock before 1970 counts as 1970.
fn limit_validity(params: &mut CertificateParams) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(VALID_BEFORE);
    params.not_after = epoch + now + VALID_FOR;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rustls_pki_types::{CertificateDer, pem::PemObject};

    use super::*;
    use crate::peer::{Caller, tests::Directory};

    #[test]
    fn a_certificate_is_good_for_the_role_that_it_was_made_for() {
        let ca = PeerCa::generate().unwrap();
        let role = |identity: PeerIdentity| {
            let leaf = CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).unwrap();
            Caller::of_chain(&[leaf])
        };
        assert_eq!(role(ca.proxy().unwrap()).unwrap(), Caller::Proxy);
        assert_eq!(role(ca.shard(2, 4).unwrap()).unwrap(), Caller::Shard { index: 2, count: 4 });
        for (index, count) in [(0, 0), (4, 4), (0, 257)] {
            assert!(matches!(ca.shard(index, count), Err(CertsError::NoSuchShard { .. })), "{index}/{count}");
        }
    }

    #[test]
    fn a_trial_is_written_once_with_keys_for_the_owner() {
        let directory = Directory::new();
        let inner = directory.path().join("made");
        write_trial(&inner, 2).unwrap();
        let files = || {
            let entries = fs::read_dir(&inner).unwrap().map(|entry| entry.unwrap().path());
            entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect::<BTreeSet<_>>()
        };
        let written = files();
        let names: Vec<_> =
            written.iter().map(|(path, _)| path.file_name().unwrap().to_str().unwrap()).collect();
        let wanted = [
            "ca.crt",
            "ca.key",
            "proxy.crt",
            "proxy.key",
            "shard-0.crt",
            "shard-0.key",
            "shard-1.crt",
            "shard-1.key",
        ];
        assert_eq!(names, wanted);
        #[cfg(unix)]
        for (path, _) in &written {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
            let is_key = path.extension().is_some_and(|extension| extension == "key");
            assert!(!is_key || mode == 0o600, "{path:?} has {mode:o}");
        }

        let refused = write_trial(&inner, 2).unwrap_err();
        assert!(
            refused.to_string().contains("ca.key") && refused.to_string().contains("not overwritten"),
            "{refused}"
        );
        assert_eq!(files(), written, "nothing was touched");
        assert!(matches!(
            write_trial(&directory.path().join("none"), 0),
            Err(CertsError::NoSuchShard { .. })
        ));
    }
}
