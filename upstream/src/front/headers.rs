//! The headers in which a front proxy says whose a request is. Upstream may be configured with other names than the usual ones,
//! and with several: weir says everything under the first, and takes away what clients say under any of them.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The names of these headers, as upstream's `--requestheader-*` options have them; none of the lists is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeaders {
    /// Whose the request is.
    pub user: Vec<HeaderName>,
    /// Their groups, one a line.
    pub group: Vec<HeaderName>,
    /// Their uid.
    pub uid: Vec<HeaderName>,
    /// What else is known of them: the beginning of a name that ends with its key.
    pub extra_prefix: Vec<HeaderName>,
}

/// A verified user, as headers say it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemoteUser {
    name: HeaderValue,
    groups: Vec<HeaderValue>,
    uid: Option<HeaderValue>,
    extra: Vec<(String, HeaderValue)>,
}

/// A user of such a name, or of such a group, would be another one in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no header can carry this user")]
pub struct NotCarried;

/// What stands for itself in the name of a header; upstream decodes the rest.
const IN_NAMES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// Clients' claims are taken away under the usual names too, whatever upstream is configured with.
const USUAL: &str = "x-remote-";

// === impl RequestHeaders ===

impl Default for RequestHeaders {
    fn default() -> Self {
        let one = |name| vec![HeaderName::from_static(name)];
        Self {
            user: one("x-remote-user"),
            group: one("x-remote-group"),
            uid: one("x-remote-uid"),
            extra_prefix: one("x-remote-extra-"),
        }
    }
}

impl RequestHeaders {
    /// Removes what only a front proxy may say, in every spelling that some server takes for the same.
    pub fn remove_claims(&self, headers: &mut HeaderMap) {
        let claims: Vec<HeaderName> = headers.keys().filter(|name| self.is_claim(name)).cloned().collect();
        for name in claims {
            headers.remove(name);
        }
    }

    fn is_claim(&self, name: &HeaderName) -> bool {
        let name = name.as_str();
        let mut whole = self.user.iter().chain(&self.group).chain(&self.uid).map(HeaderName::as_str);
        let mut prefixes = self.extra_prefix.iter().map(HeaderName::as_str);
        begins_with(name, USUAL)
            || whole.any(|claim| claim.len() == name.len() && begins_with(name, claim))
            || prefixes.any(|prefix| begins_with(name, prefix))
    }

    /// Whether a request says whose it is.
    pub(super) fn name_user(&self, headers: &HeaderMap) -> bool {
        let first = self.user.first().and_then(|name| headers.get(name));
        first.is_some_and(|user| !user.is_empty())
    }
}

/// Whether a name begins with another one, in whatever spelling.
fn begins_with(name: &str, prefix: &str) -> bool {
    let spelled = |byte| if matches!(byte, b'_' | b'.') { b'-' } else { byte };
    name.len() >= prefix.len()
        && name.bytes().map(spelled).zip(prefix.bytes().map(spelled)).all(|(a, b)| a == b)
}

// === impl RemoteUser ===

impl RemoteUser {
    /// A user of this name.
    pub fn new(name: &str) -> Result<Self, NotCarried> {
        Ok(Self { name: value(name)?, groups: Vec::new(), uid: None, extra: Vec::new() })
    }

    /// The same as a member of these groups. `system:authenticated` is added by upstream.
    pub fn in_groups<'a>(self, groups: impl IntoIterator<Item = &'a str>) -> Result<Self, NotCarried> {
        let groups = groups.into_iter().map(value).collect::<Result<_, _>>()?;
        Ok(Self { groups, ..self })
    }

    /// The same with a uid.
    pub fn with_uid(self, uid: &str) -> Result<Self, NotCarried> {
        Ok(Self { uid: Some(value(uid)?), ..self })
    }

    /// The same with something more that is known.
    pub fn with_extra(mut self, key: &str, of_key: &str) -> Result<Self, NotCarried> {
        self.extra.push((utf8_percent_encode(key, IN_NAMES).to_string(), value(of_key)?));
        Ok(self)
    }

    /// Says in the headers of a request that it is this user's and nobody else's.
    pub(super) fn apply(&self, names: &RequestHeaders, headers: &mut HeaderMap) {
        let Self { name, groups, uid, extra } = self;
        names.remove_claims(headers);
        headers.remove(header::AUTHORIZATION);
        let under = |names: &[HeaderName]| names.first().cloned();
        if let Some(user) = under(&names.user) {
            headers.insert(user, name.clone());
        }
        if let (Some(header), Some(uid)) = (under(&names.uid), uid) {
            headers.insert(header, uid.clone());
        }
        if let Some(header) = under(&names.group) {
            for group in groups {
                headers.append(header.clone(), group.clone());
            }
        }
        let Some(prefix) = under(&names.extra_prefix) else { return };
        for (key, value) in extra {
            if let Ok(header) = HeaderName::try_from(format!("{prefix}{key}")) {
                headers.append(header, value.clone());
            }
        }
    }
}

/// A text that comes out of a header as it went in: space around it would be lost, and an empty one says nothing.
fn value(text: &str) -> Result<HeaderValue, NotCarried> {
    let is_trimmed = text.trim_matches([' ', '\t']).len() == text.len();
    if text.is_empty() || !is_trimmed {
        return Err(NotCarried);
    }
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| NotCarried)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(user: &str, group: &str, prefix: &str) -> RequestHeaders {
        let list = |text: &str| text.split(',').map(|name| name.parse().unwrap()).collect();
        RequestHeaders {
            user: list(user),
            group: list(group),
            extra_prefix: list(prefix),
            ..RequestHeaders::default()
        }
    }

    fn lines(headers: &HeaderMap) -> Vec<String> {
        let line =
            |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
        let mut lines: Vec<_> = headers.iter().map(line).collect();
        lines.sort();
        lines
    }

    fn bob() -> RemoteUser {
        let bob = RemoteUser::new("bob").unwrap().in_groups(["devs", "a,b"]).unwrap().with_uid("7").unwrap();
        bob.with_extra("authentication.kubernetes.io/credential-id", "X509SHA256=ff").unwrap()
    }

    #[test]
    fn a_user_is_said_in_the_headers_and_nothing_else_of_users_stays() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer x"),
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x_remote_group", "system:masters"),
            ("x-remote.extra-scopes", "all"),
            ("accept", "a"),
            ("impersonate-user", "eve"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        bob().apply(&RequestHeaders::default(), &mut headers);
        assert_eq!(
            lines(&headers),
            [
                "accept: a",
                "impersonate-user: eve",
                "x-remote-extra-authentication.kubernetes.io%2fcredential-id: X509SHA256=ff",
                "x-remote-group: a,b",
                "x-remote-group: devs",
                "x-remote-uid: 7",
                "x-remote-user: bob",
            ]
        );
    }

    #[test]
    fn other_names_are_said_under_the_first_and_taken_away_under_all() {
        let names = names("x-who,x-user", "x-team", "x-more-,x-extra-");
        let mut headers = HeaderMap::new();
        for name in
            ["X-Who", "x_user", "X-User", "x-team", "x-more-a", "x-extra-b", "x-remote-group", "x-more"]
        {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static("claim"));
        }
        bob().apply(&names, &mut headers);
        assert_eq!(
            lines(&headers),
            [
                "x-more-authentication.kubernetes.io%2fcredential-id: X509SHA256=ff",
                "x-more: claim",
                "x-remote-uid: 7",
                "x-team: a,b",
                "x-team: devs",
                "x-who: bob",
            ]
        );
        assert!(names.name_user(&headers) && !RequestHeaders::default().name_user(&headers));
    }

    #[test]
    fn who_would_be_somebody_else_in_a_header_is_not_carried() {
        for name in ["", " bob", "bob\t", "bob\nx-remote-group: system:masters", "bob\0"] {
            assert_eq!(RemoteUser::new(name), Err(NotCarried), "{name:?}");
            assert_eq!(bob().in_groups(["devs", name]), Err(NotCarried), "{name:?}");
        }
        assert!(RemoteUser::new("Jörg von und zu").is_ok());
    }
}
