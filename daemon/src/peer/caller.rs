//! Who is at the other end of a connection, read from the certificate that it has shown. Only DNS names count, and exactly
//! one of them must name a role: a certificate that is good for two would let its holder choose.

use std::fmt;

use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;
use weir_core::Slot;

/// The name that every shard node answers to, and that everybody dials.
pub(super) const SHARD: &str = "shard.weir.internal";
/// The name of a proxy.
pub(super) const PROXY: &str = "proxy.weir.internal";

/// Who calls. It stands in the extensions of every request that a [`PeerServer`](super::PeerServer) passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// A proxy.
    Proxy,
    /// A node of one shard.
    Shard {
        /// Which shard; below `count`.
        index: usize,
        /// How many shards there are: from 1 to the number of slots.
        count: usize,
    },
    /// Some process of this machine; peers have no certificates here.
    Trusted,
}

/// Why a certificate tells no caller.
#[derive(Debug, thiserror::Error)]
pub enum CallerError {
    /// There is none.
    #[error("no certificate was shown")]
    NoCertificate,
    /// It is no certificate of the kind that webpki reads.
    #[error("the certificate cannot be read")]
    Unreadable(#[source] webpki::Error),
    /// None of its names is one of a role.
    #[error("the certificate names no role of weir")]
    NoRole,
    /// Its names are good for several roles.
    #[error("the certificate names several roles of weir")]
    SeveralRoles,
}

// === impl Caller ===

impl Caller {
    /// The caller of a request; none if the request did not come through a [`PeerServer`](super::PeerServer).
    pub fn of(extensions: &http::Extensions) -> Option<Self> {
        extensions.get().copied()
    }

    /// The role that the first certificate of a verified chain names. It verifies nothing.
    pub(super) fn of_chain(chain: &[CertificateDer<'_>]) -> Result<Self, CallerError> {
        let leaf = chain.first().ok_or(CallerError::NoCertificate)?;
        let leaf = EndEntityCert::try_from(leaf).map_err(CallerError::Unreadable)?;
        let mut roles = leaf.valid_dns_names().filter_map(Self::of_name);
        let role = roles.next().ok_or(CallerError::NoRole)?;
        if roles.any(|other| other != role) { Err(CallerError::SeveralRoles) } else { Ok(role) }
    }

    fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        if name == PROXY {
            return Some(Self::Proxy);
        }
        let label = name.strip_suffix(SHARD)?.strip_suffix('.')?;
        let (index, count) = label.split_once("-of-")?;
        let (index, count) = (number(index)?, number(count)?);
        (index < count && count <= Slot::COUNT).then_some(Self::Shard { index, count })
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proxy => f.write_str("proxy"),
            Self::Shard { index, count } => write!(f, "shard {index}/{count}"),
            Self::Trusted => f.write_str("a process of this machine"),
        }
    }
}

/// The name of the nodes of one shard.
pub(super) fn shard_name(index: usize, count: usize) -> String {
    format!("{index}-of-{count}.{SHARD}")
}

/// A number in the one way that it is written.
fn number(text: &str) -> Option<usize> {
    text.parse::<usize>().ok().filter(|number| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_a_role_or_of_none() {
        let shard = |index, count| Some(Caller::Shard { index, count });
        for (name, role) in [
            ("proxy.weir.internal", Some(Caller::Proxy)),
            ("Proxy.Weir.Internal", Some(Caller::Proxy)),
            ("0-of-4.shard.weir.internal", shard(0, 4)),
            ("3-of-4.SHARD.weir.internal", shard(3, 4)),
            ("255-of-256.shard.weir.internal", shard(255, 256)),
            ("4-of-4.shard.weir.internal", None),
            ("0-of-0.shard.weir.internal", None),
            ("0-of-257.shard.weir.internal", None),
            ("0-of-18446744073709551616.shard.weir.internal", None),
            ("00-of-4.shard.weir.internal", None),
            ("+0-of-4.shard.weir.internal", None),
            ("-of-4.shard.weir.internal", None),
            ("0-of-4-of-4.shard.weir.internal", None),
            ("0-of-4.proxy.weir.internal", None),
            ("0-of-4shard.weir.internal", None),
            ("shard.weir.internal", None),
            ("*.shard.weir.internal", None),
            ("a.proxy.weir.internal", None),
            ("proxy.weir.internal.example", None),
            ("", None),
        ] {
            assert_eq!(Caller::of_name(name), role, "{name}");
        }
    }

    #[test]
    fn what_is_no_certificate_tells_nobody() {
        assert!(matches!(Caller::of_chain(&[]), Err(CallerError::NoCertificate)));
        let garbage = CertificateDer::from(b"0\x82\xff".as_slice());
        assert!(matches!(Caller::of_chain(&[garbage]), Err(CallerError::Unreadable(_))));
    }

    #[test]
    fn the_name_written_is_the_name_read() {
        for (index, count) in [(0, 1), (7, 8), (255, 256)] {
            assert_eq!(Caller::of_name(&shard_name(index, count)), Some(Caller::Shard { index, count }));
        }
    }
}
