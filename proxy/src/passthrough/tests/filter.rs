//! Any set of headers on its way to upstream: what is of the connection or claims an identity goes, all else stays as it was.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use proptest::prelude::*;
use proptest::sample::select;
use weir_upstream::RequestHeaders;

use super::super::headers::remove_hop_by_hop;

/// Names that the filter knows, that look like those, and that it must not touch.
const NAMES: [&str; 24] = [
    "connection",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
    "te",
    "proxy-authorization",
    "proxy-connection",
    "x-remote-user",
    "x_remote_group",
    "x.remote-extra-scopes",
    "x-remote_uid",
    "x-remote",
    "x-remotely",
    "ax-remote-user",
    "accept",
    "cookie",
    "via",
    "warning",
    "trailer",
    "user-agent",
    "content-type",
    "keep-alive-not",
    "proxying",
    "te-x",
];

/// Values that are lists of names for `Connection`, and some that are none.
const VALUES: [&str; 10] = [
    "close",
    "keep-alive, X-Hop , cookie",
    "upgrade,,te, x-remote-user",
    "trailers",
    "gzip, Trailers",
    "websocket",
    "no/name, ( ), user-agent",
    "",
    ",",
    "\u{e9}",
];

fn given() -> impl Strategy<Value = HeaderMap> {
    let name = prop_oneof![4 => select(&NAMES[..]).prop_map(str::to_owned), 1 => "[a-z][a-z0-9_.-]{0,12}"];
    let pair = (name, select(&VALUES[..]));
    proptest::collection::vec(pair, 0..16).prop_map(|pairs| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    })
}

/// The names in `Connection`, read as plainly as can be.
fn named(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

fn is_of_connection(name: &str) -> bool {
    ["connection", "keep-alive", "transfer-encoding", "upgrade"].contains(&name) || name.starts_with("proxy-")
}

fn claims_identity(name: &str) -> bool {
    name.replace(['_', '.'], "-").starts_with("x-remote-")
}

proptest! {
    #[test]
    fn what_has_to_go_goes_and_the_rest_stays_in_its_order(headers in given()) {
        let mut passed = headers.clone();
        remove_hop_by_hop(&mut passed);
        RequestHeaders::default().remove_claims(&mut passed);
        for name in passed.keys() {
            prop_assert!(!is_of_connection(name.as_str()) && !claims_identity(name.as_str()), "{} stays", name);
        }
        prop_assert!(passed.get_all(header::TE).iter().all(|value| value == "trailers"));
        let named = named(&headers);
        for name in headers.keys().filter(|name| *name != header::TE) {
            let text = name.as_str();
            if is_of_connection(text) || claims_identity(text) || named.iter().any(|named| named == text) {
                continue;
            }
            let values = |headers: &HeaderMap| headers.get_all(name).iter().cloned().collect::<Vec<_>>();
            prop_assert_eq!(values(&passed), values(&headers), "{}", text);
        }
    }

    #[test]
    fn nothing_is_made_up_and_a_second_time_changes_nothing(headers in given()) {
        let mut passed = headers.clone();
        remove_hop_by_hop(&mut passed);
        RequestHeaders::default().remove_claims(&mut passed);
        prop_assert!(passed.keys().all(|name| headers.contains_key(name)));
        let mut again = passed.clone();
        remove_hop_by_hop(&mut again);
        RequestHeaders::default().remove_claims(&mut again);
        prop_assert_eq!(again, passed);
    }
}
