//! What belongs to one connection and not to the request, and what a client must not claim. `TE: trailers` stays, since
//! upstream sends trailers only to those who say that they take them.

use http::{HeaderMap, HeaderName, HeaderValue, Version, header, request::Parts};

/// Headers of one connection, beside those that `Connection` names. `Proxy-*` goes as a whole.
const HOP_BY_HOP: [HeaderName; 4] =
    [header::CONNECTION, HeaderName::from_static("keep-alive"), header::TRANSFER_ENCODING, header::UPGRADE];

/// What kube-apiserver upgrades to. Any other protocol (h2c) would be a way for requests at which nobody has looked.
const UPGRADES: [&str; 2] = ["websocket", "SPDY/3.1"];

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

/// Removes what is about the connection only, what a client says of it among that. Repetitions of a name keep their order; that
/// of different names means nothing, and changes here.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let takes_trailers = tokens(headers, &header::TE).any(|token| token.eq_ignore_ascii_case("trailers"));
    let named = tokens(headers, &header::CONNECTION).filter_map(|token| token.parse().ok());
    let named: Vec<HeaderName> = named.filter(|name| !says_who_asks(name)).collect();
    let proxies: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("proxy-")).cloned().collect();
    for name in HOP_BY_HOP.iter().chain(&named).chain(&proxies).chain([&header::TE]) {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(header::TE, TRAILERS);
    }
}

/// Whether a header says who asks. It is never of the connection, whatever `Connection` says: without it the request would be
/// somebody else's, and kube-apiserver takes it in any case.
fn says_who_asks(name: &HeaderName) -> bool {
    *name == header::AUTHORIZATION || name.as_str().starts_with("impersonate-")
}

/// Whether the client asks to turn its connection into a protocol that upstream speaks. HTTP/2 has no such thing, and any
/// other wish is one that a server may overlook.
pub(crate) fn asks_for_upgrade(parts: &Parts) -> bool {
    let mut wishes = parts.headers.get_all(header::UPGRADE).iter();
    let (wish, more) = (wishes.next(), wishes.next());
    parts.version == Version::HTTP_11
        && more.is_none()
        && wish.is_some_and(|wish| UPGRADES.iter().any(|known| is_protocol(wish, known)))
        && tokens(&parts.headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"))
}

/// Whether two headers name the same protocol.
pub(super) fn is_same_protocol(asked: Option<&HeaderValue>, got: Option<&HeaderValue>) -> bool {
    let (Some(asked), Some(got)) = (asked, got) else { return false };
    got.to_str().is_ok_and(|got| is_protocol(asked, got))
}

fn is_protocol(value: &HeaderValue, name: &str) -> bool {
    value.to_str().is_ok_and(|value| value.trim().eq_ignore_ascii_case(name.trim()))
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
    use weir_upstream::RequestHeaders;

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
    fn au_02_a_connection_cannot_take_away_who_asks() {
        let mut given = headers(&[
            ("connection", "close, Authorization, impersonate-user, Impersonate-Extra-scopes, x-hop"),
            ("authorization", "Bearer x"),
            ("impersonate-user", "jane"),
            ("impersonate-extra-scopes", "a"),
            ("x-hop", "1"),
        ]);
        remove_hop_by_hop(&mut given);
        assert_eq!(
            lines(&given),
            ["authorization: Bearer x", "impersonate-extra-scopes: a", "impersonate-user: jane"]
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
        RequestHeaders::default().remove_claims(&mut given);
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
        let asks = |version, pairs: &[(&'static str, &'static str)]| {
            let mut parts = http::Request::new(()).into_parts().0;
            (parts.version, parts.headers) = (version, headers(pairs));
            asks_for_upgrade(&parts)
        };
        let both = [("connection", "keep-alive, Upgrade"), ("upgrade", "SPDY/3.1")];
        assert!(asks(Version::HTTP_11, &both));
        assert!(asks(Version::HTTP_11, &[("connection", "upgrade"), ("upgrade", "WebSocket")]));
        assert!(!asks(Version::HTTP_2, &both));
        assert!(!asks(Version::HTTP_11, &both[..1]));
        assert!(!asks(Version::HTTP_11, &both[1..]));
        for other in ["h2c", "h2c, websocket", "websocket, h2c", "TLS/1.0", "SPDY/3.10", ""] {
            assert!(!asks(Version::HTTP_11, &[("connection", "Upgrade"), ("upgrade", other)]), "{other}");
        }
        let twice = [("connection", "Upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")];
        assert!(!asks(Version::HTTP_11, &twice));
    }
}
