//! What belongs to one connection and not to the request, and what a client must not claim. `TE: trailers` stays, since
//! upstream sends trailers only to those who say that they take them.

use http::{HeaderMap, HeaderName, HeaderValue, Request, Version, header};

/// Headers of one connection, beside those that `Connection` names. `Proxy-*` goes as a whole.
const HOP_BY_HOP: [HeaderName; 4] =
    [header::CONNECTION, HeaderName::from_static("keep-alive"), header::TRANSFER_ENCODING, header::UPGRADE];

const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// The mark that this process leaves on requests.
#[derive(Debug)]
pub(super) struct Via {
    name: String,
    http1: HeaderValue,
    http2: HeaderValue,
}

// === impl Via ===

impl Via {
    pub(super) fn random() -> Self {
        let name = format!("weir-{:016x}", rand::random::<u64>());
        let value = |version: &str| {
            HeaderValue::try_from(format!("{version} {name}")).expect("hexadecimal digits are a header value")
        };
        Self { http1: value("1.1"), http2: value("2.0"), name }
    }

    /// Whether this process has marked the request already. Others in front or behind are no loop.
    pub(super) fn has_passed(&self, headers: &HeaderMap) -> bool {
        let values = headers.get_all(header::VIA).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split([',', ' '])).any(|word| word == self.name)
    }

    pub(super) fn mark(&self, version: Version, headers: &mut HeaderMap) {
        let mark = if version == Version::HTTP_2 { &self.http2 } else { &self.http1 };
        headers.append(header::VIA, mark.clone());
    }
}

/// Removes what is about the connection only. Repetitions of a name keep their order; that of different names means
/// nothing, and changes here.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let takes_trailers = tokens(headers, &header::TE).any(|token| token.eq_ignore_ascii_case("trailers"));
    let named: Vec<HeaderName> =
        tokens(headers, &header::CONNECTION).filter_map(|token| token.parse().ok()).collect();
    let proxies: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("proxy-")).cloned().collect();
    for name in HOP_BY_HOP.iter().chain(&named).chain(&proxies).chain([&header::TE]) {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(header::TE, TRAILERS);
    }
}

/// Removes what only a front proxy may say, in every spelling that some server takes for the same.
pub(super) fn remove_foreign_identity(headers: &mut HeaderMap) {
    let claims: Vec<HeaderName> = headers.keys().filter(|name| is_identity(name.as_str())).cloned().collect();
    for name in claims {
        headers.remove(name);
    }
}

fn is_identity(name: &str) -> bool {
    name.replace(['_', '.'], "-").starts_with("x-remote-")
}

/// Whether the client asks to turn its connection into another protocol. HTTP/2 has no such thing.
pub(super) fn asks_for_upgrade<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_11
        && request.headers().contains_key(header::UPGRADE)
        && tokens(request.headers(), &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"))
}

/// Puts back the two headers of an upgrade.
pub(super) fn set_upgrade(headers: &mut HeaderMap, protocol: Option<HeaderValue>) {
    if let Some(protocol) = protocol {
        headers.insert(header::UPGRADE, protocol);
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    }
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    /// In the order of the names; values of one name in theirs.
    fn lines(headers: &HeaderMap) -> Vec<String> {
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let values = |name| headers.get_all(name).iter().map(move |value| (name, value.to_str().unwrap()));
        names.into_iter().flat_map(values).map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn what_belongs_to_the_connection_goes_and_the_rest_keeps_its_repetitions() {
        let mut given = headers(&[
            ("accept", "a"),
            ("connection", "close, X-Hop"),
            ("connection", "x-other , Upgrade"),
            ("x-hop", "1"),
            ("x-other", "2"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("proxy-connection", "close"),
            ("proxy-authorization", "x"),
            ("te", "gzip"),
            ("trailer", "x-sum"),
            ("warning", "one"),
            ("accept", "b"),
            ("warning", "two"),
        ]);
        remove_hop_by_hop(&mut given);
        assert_eq!(
            lines(&given),
            ["accept: a", "accept: b", "trailer: x-sum", "warning: one", "warning: two"]
        );
    }

    #[test]
    fn the_wish_for_trailers_stays() {
        let mut given = headers(&[("te", "gzip, Trailers"), ("connection", "te")]);
        remove_hop_by_hop(&mut given);
        assert_eq!(lines(&given), ["te: trailers"]);
    }

    #[test]
    fn claims_of_identity_go_in_every_spelling_and_impersonation_stays() {
        let mut given = headers(&[
            ("x-remote-user", "admin"),
            ("X_Remote_Group", "system:masters"),
            ("x-remote_extra-scopes", "x"),
            ("x.remote.uid", "1"),
            ("x-remote", "kept"),
            ("impersonate-user", "jane"),
            ("authorization", "Bearer x"),
        ]);
        remove_foreign_identity(&mut given);
        assert_eq!(lines(&given), ["authorization: Bearer x", "impersonate-user: jane", "x-remote: kept"]);
    }

    #[test]
    fn a_mark_is_recognised_beside_others_and_another_process_is_no_loop() {
        let (here, other) = (Via::random(), Via::random());
        let mut given = headers(&[("via", "1.0 fred, 1.1 p.example.net (x)")]);
        other.mark(Version::HTTP_2, &mut given);
        assert!(!here.has_passed(&given));
        here.mark(Version::HTTP_11, &mut given);
        assert!(here.has_passed(&given) && other.has_passed(&given));
        assert_eq!(given.get_all(header::VIA).iter().count(), 3);
    }

    #[test]
    fn only_http1_with_both_headers_asks_for_an_upgrade() {
        let request = |version, pairs: &[(&'static str, &'static str)]| {
            let mut request = Request::new(());
            *request.version_mut() = version;
            *request.headers_mut() = headers(pairs);
            request
        };
        let both = [("connection", "keep-alive, Upgrade"), ("upgrade", "SPDY/3.1")];
        assert!(asks_for_upgrade(&request(Version::HTTP_11, &both)));
        assert!(!asks_for_upgrade(&request(Version::HTTP_2, &both)));
        assert!(!asks_for_upgrade(&request(Version::HTTP_11, &both[..1])));
        assert!(!asks_for_upgrade(&request(Version::HTTP_11, &both[1..])));
    }
}
