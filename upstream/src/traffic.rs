//! What kind of request is under way to an instance. Each kind has connections of its own: bytes of a large list that a
//! connection has taken stand in the way of whatever comes behind them, and answers that nobody reads fill what a connection
//! may hold. A mistake here is harmless: it decides which connection a request takes and nothing else.

use http::{Method, uri::PathAndQuery};

/// The kinds of requests that hold up no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// They change something and are answered in a moment.
    Writes,
    /// weir's questions about the rights of callers, for whose answers other requests wait.
    Reviews,
    /// Watches, logs, whatever has no end of its own.
    Streams,
    /// All else, large lists among it.
    Reads,
}

/// Parameters that make a stream of a request.
const ENDLESS: [&str; 2] = ["watch", "follow"];

/// Subresources behind which anything may stream.
const STREAMING: [&str; 5] = ["log", "exec", "attach", "portforward", "proxy"];

// === impl Traffic ===

impl Traffic {
    /// That of a request passed on for others.
    pub(crate) fn of(method: &Method, path: &PathAndQuery) -> Self {
        if is_endless(path) {
            return Self::Streams;
        }
        match *method {
            Method::GET | Method::HEAD | Method::OPTIONS => Self::Reads,
            _ => Self::Writes,
        }
    }
}

fn is_endless(path: &PathAndQuery) -> bool {
    let pairs = path.query().unwrap_or_default().split('&');
    let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    if pairs.any(|(name, value)| ENDLESS.contains(&name) && !["0", "false"].contains(&value)) {
        return true;
    }
    let mut segments = path.path().split('/').filter(|segment| !segment.is_empty());
    let behind_version = match segments.next() {
        Some("api") => segments.nth(1),
        Some("apis") => segments.nth(2),
        _ => return false,
    };
    // …/watch/… in the old way, or …/RESOURCE/NAME/SUBRESOURCE.
    behind_version == Some("watch") || segments.skip(1).any(|segment| STREAMING.contains(&segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &Method, path: &'static str) -> Traffic {
        Traffic::of(method, &PathAndQuery::from_static(path))
    }

    #[test]
    fn what_has_no_end_of_its_own_is_a_stream() {
        for path in [
            "/api/v1/pods?watch=1",
            "/api/v1/pods?limit=1&watch",
            "/apis/apps/v1/deployments?watch=true&resourceVersion=5",
            "/api/v1/watch/pods",
            "/apis/apps/v1/watch/namespaces/a/deployments",
            "/api/v1/namespaces/a/pods/b/log?follow=true",
            "/api/v1/namespaces/a/pods/b/log",
            "/api/v1/nodes/a/proxy/stats",
            "/api/v1/namespaces/a/services/http:b:80/proxy/x/y",
        ] {
            assert_eq!(of(&Method::GET, path), Traffic::Streams, "{path}");
        }
        assert_eq!(of(&Method::POST, "/api/v1/namespaces/a/pods/b/exec?command=ls"), Traffic::Streams);
    }

    #[test]
    fn all_else_is_a_read_or_a_write() {
        for path in ["/api/v1/pods", "/api/v1/pods?watch=0", "/apis", "/", "/version", "/api/v1/log?a=watch"]
        {
            assert_eq!(of(&Method::GET, path), Traffic::Reads, "{path}");
            assert_eq!(of(&Method::POST, path), Traffic::Writes, "{path}");
            assert_eq!(of(&Method::DELETE, path), Traffic::Writes, "{path}");
        }
    }
}
