//! Callers whom weir has verified itself, by their client certificates, as kube-apiserver reads them: the common name is the
//! user, the organizations are the groups. Upstream takes weir's word for them.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::request::Parts;
use serde::Serialize;
use serde_json::{Value, json};
use weir_core::{Status, fnv1a64};
use weir_daemon::clients::{ClientCertificate, Holder, Presented};
use weir_upstream::{Affinity, NotCarried, RemoteUser};

use super::caller;
use super::identity::Identity;

/// Object identifiers of attributes, as DER writes them.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
/// 1.3.6.1.4.1.57683.2, which Kubernetes has for the uid of a user.
const UID: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, 2];

const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// How a browser shows a token where it can set no header.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// A caller with a certificate. It stands in the extensions of each of their requests, and beside it, for whoever passes the
/// request on, what upstream is told.
#[derive(Clone, Debug)]
pub struct CertificateUser {
    certificate: Arc<ClientCertificate>,
    identity: Arc<Identity>,
    remote: Arc<RemoteUser>,
    /// What it came with, by which it is verified again.
    presented: Option<Arc<Presented>>,
}

/// Why a certificate makes nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NobodyError {
    /// It is not trusted, or cannot be read.
    #[error("the certificate is not trusted")]
    Unknown,
    /// It has no common name.
    #[error("the certificate names no user")]
    Nameless,
    /// It has several uids, or an empty one.
    #[error("the certificate has no one uid")]
    Uid,
    /// It names a user or a group whom upstream would take for others.
    #[error(transparent)]
    NotCarried(#[from] NotCarried),
}

/// Finds out who makes a request by what their connection has shown. A certificate wins over a token, which then goes no
/// further; one that is not trusted counts for nothing where there is a token, and is refused where there is none.
pub fn identify(parts: &mut Parts) -> Result<(), Status> {
    let Some(presented) = parts.extensions.remove::<Arc<Presented>>() else { return Ok(()) };
    let user = match presented.holder() {
        Holder::Verified(certificate) => CertificateUser::of(certificate),
        Holder::Unknown => Err(NobodyError::Unknown),
    };
    match user {
        Ok(user) => {
            parts.headers.remove(AUTHORIZATION);
            parts.extensions.insert(user.remote.clone());
            parts.extensions.insert(Arc::new(CertificateUser { presented: Some(presented), ..user }));
            Ok(())
        }
        Err(_) if shows_token(&parts.headers) => Ok(()),
        Err(error) => {
            tracing::debug!(%error, "certificate of a client makes nobody");
            Err(unauthorized())
        }
    }
}

/// In upstream's words.
fn unauthorized() -> Status {
    Status::new(401, "Unauthorized", "Unauthorized")
}

/// Whether upstream would look for a user in what the request itself shows.
fn shows_token(headers: &HeaderMap) -> bool {
    let is_bearer = headers.get(AUTHORIZATION).is_some_and(caller::shows_token);
    let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    is_bearer
        || protocols.flat_map(|value| value.split(',')).any(|one| one.trim().starts_with(TOKEN_PROTOCOL))
}

// === impl CertificateUser ===

impl CertificateUser {
    /// Whom a certificate names. Who has shown one is never anonymous: upstream asks first whether it is a front proxy's, and
    /// that it is not is an error.
    fn of(certificate: Arc<ClientCertificate>) -> Result<Self, NobodyError> {
        let subject = &certificate.subject;
        // Go's reader keeps the last.
        let name = subject.values(COMMON_NAME).next_back().filter(|name| !name.is_empty());
        let name = name.ok_or(NobodyError::Nameless)?;
        let organizations: Vec<&str> = subject.values(ORGANIZATION).filter(|name| !name.is_empty()).collect();
        let uid = match subject.values(UID).collect::<Vec<_>>()[..] {
            [] => None,
            [uid] if !uid.is_empty() => Some(uid),
            _ => return Err(NobodyError::Uid),
        };
        let credential = format!("X509SHA256={}", certificate.sha256);
        let remote = RemoteUser::new(name)?.in_groups(organizations.iter().copied())?;
        let remote = remote.with_extra(CREDENTIAL_ID, &credential)?;
        let remote = match uid {
            Some(uid) => Arc::new(remote.with_uid(uid)?),
            None => Arc::new(remote),
        };
        let is_told = name == ANONYMOUS
            || organizations.iter().any(|group| [AUTHENTICATED, UNAUTHENTICATED].contains(group));
        let added = (!is_told).then_some(AUTHENTICATED);
        let identity = Identity {
            username: name.to_owned(),
            uid: uid.map(str::to_owned).unwrap_or_default(),
            groups: organizations.into_iter().chain(added).map(str::to_owned).collect(),
            extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![credential])]),
        };
        Ok(Self { certificate, identity: Arc::new(identity), remote, presented: None })
    }

    /// Questions about one user go to one instance.
    pub(super) fn affinity(&self) -> Affinity {
        Affinity(fnv1a64(self.certificate.sha256.as_bytes()))
    }

    /// Whether their certificate is trusted now; its CA may have been withdrawn, and it expires.
    pub(super) fn is_verified(&self) -> bool {
        let is_same =
            |holder| matches!(holder, Holder::Verified(now) if now.sha256 == self.certificate.sha256);
        self.presented.as_ref().is_none_or(|presented| is_same(presented.holder()))
    }

    /// Who they are, in the words of a SelfSubjectReview.
    pub(super) fn identity(&self) -> Arc<Identity> {
        self.identity.clone()
    }

    /// A SubjectAccessReview of them, with attributes like those of a SelfSubjectAccessReview.
    pub(super) fn review(&self, attributes: &impl Serialize) -> Value {
        let Identity { username, uid, groups, extra } = &*self.identity;
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": username,
                "groups": groups,
                "uid": uid,
                "extra": extra,
                "resourceAttributes": attributes,
            },
        })
    }
}

impl PartialEq for CertificateUser {
    fn eq(&self, other: &Self) -> bool {
        self.certificate == other.certificate
    }
}

impl Eq for CertificateUser {}

impl Hash for CertificateUser {
    /// The certificate says all the rest.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.certificate.sha256.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use weir_daemon::clients::Subject;

    use super::*;

    fn user(attributes: &[(&[u8], &str)]) -> Result<CertificateUser, NobodyError> {
        let attributes = attributes.iter().map(|(name, value)| (name.to_vec(), (*value).to_owned()));
        let subject = Subject::from_iter(attributes);
        CertificateUser::of(Arc::new(ClientCertificate { sha256: "ff".to_owned(), subject }))
    }

    fn named(attributes: &[(&[u8], &str)]) -> CertificateUser {
        user(attributes).unwrap()
    }

    #[test]
    fn the_common_name_is_the_user_and_organizations_are_groups() {
        let bob = named(&[(ORGANIZATION, "devs"), (COMMON_NAME, "bob"), (ORGANIZATION, "a,b"), (UID, "7")]);
        let review = bob.review(&json!({ "verb": "list" }));
        assert_eq!(
            review["spec"],
            json!({
                "user": "bob",
                "groups": ["devs", "a,b", "system:authenticated"],
                "uid": "7",
                "extra": { "authentication.kubernetes.io/credential-id": ["X509SHA256=ff"] },
                "resourceAttributes": { "verb": "list" },
            })
        );
        let last = named(&[(COMMON_NAME, "bob"), (COMMON_NAME, "eve")]);
        assert_eq!((last.identity.username.as_str(), last.identity.uid.as_str()), ("eve", ""));
    }

    #[test]
    fn the_group_of_all_users_is_added_where_upstream_adds_it() {
        for (attributes, groups) in [
            (&[(COMMON_NAME, "system:anonymous")][..], &[][..]),
            (&[(COMMON_NAME, "a"), (ORGANIZATION, "system:authenticated")], &["system:authenticated"]),
            (&[(COMMON_NAME, "a"), (ORGANIZATION, "system:unauthenticated")], &["system:unauthenticated"]),
            (&[(COMMON_NAME, "a"), (ORGANIZATION, "")], &["system:authenticated"]),
        ] {
            assert_eq!(named(attributes).identity.groups, groups);
        }
    }

    #[test]
    fn who_has_no_name_or_cannot_be_told_of_is_nobody() {
        for nobody in [&[][..], &[(COMMON_NAME, "")], &[(ORGANIZATION, "devs")]] {
            assert_eq!(user(nobody), Err(NobodyError::Nameless));
        }
        for attributes in [&[(UID, "1"), (UID, "2")][..], &[(UID, "")]] {
            let attributes = [&[(COMMON_NAME, "bob")][..], attributes].concat();
            assert_eq!(user(&attributes), Err(NobodyError::Uid));
        }
        for attributes in [&[(COMMON_NAME, "bob ")][..], &[(COMMON_NAME, "bob"), (ORGANIZATION, "a\r\nb")]] {
            assert_eq!(user(attributes), Err(NobodyError::NotCarried(NotCarried)));
        }
    }

    #[test]
    fn a_token_is_what_upstream_takes_for_one() {
        let shows = |name: &'static str, value: &'static str| {
            shows_token(&HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]))
        };
        assert!(shows("authorization", "bEARER x"));
        assert!(shows("sec-websocket-protocol", "v4, base64url.bearer.authorization.k8s.io.eA"));
        for other in ["Basic x", "Bearer ", "Bearer  x", "Bearer", ""] {
            assert!(!shows("authorization", other), "{other:?}");
        }
        assert!(!shows("sec-websocket-protocol", "v4.channel.k8s.io"));
    }
}
