//! The pages themselves. `/livez` says only that tasks get their turn: what would make it fail, the end of a critical task,
//! ends the process anyway, and a process that waits for its upstream must not be killed for it.

use std::fmt::Write;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};

use super::State;
use crate::{Readiness, readiness::Check};

const TEXT: &str = "text/plain; charset=utf-8";

/// What the page of metrics is, in the version that prometheus-client writes.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Live,
    Ready { detail: Detail },
    Metrics,
}

/// How much `/readyz` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// `ok`, or what is missing.
    Short,
    /// Every condition, as kube-apiserver writes them.
    Verbose,
}

pub(super) async fn answer(request: &Request<Incoming>, state: &State) -> Response<Full<Bytes>> {
    let Some(page) = Page::of(request.uri()) else {
        return text(StatusCode::NOT_FOUND, "not found\n".to_owned());
    };
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n".to_owned());
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match page {
        Page::Live => text(StatusCode::OK, "ok".to_owned()),
        Page::Ready { detail } => ready(&state.readiness, detail),
        Page::Metrics => metrics(state).await,
    }
}

fn ready(readiness: &Readiness, detail: Detail) -> Response<Full<Bytes>> {
    let checks = readiness.checks();
    let is_ready = checks.iter().all(|check| check.holds);
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    text(
        status,
        match detail {
            Detail::Short if is_ready => "ok".to_owned(),
            Detail::Short => missing(&checks),
            Detail::Verbose => verbose(&checks, is_ready),
        },
    )
}

fn missing(checks: &[Check]) -> String {
    checks.iter().filter(|check| !check.holds).fold(String::new(), |page, check| page + &check.name + "\n")
}

fn verbose(checks: &[Check], is_ready: bool) -> String {
    let mut page = String::new();
    for Check { name, holds } in checks {
        let (sign, word) = if *holds { ('+', "ok") } else { ('-', "failed") };
        writeln!(page, "[{sign}]{name} {word}").expect("a string takes everything");
    }
    page + "readyz check " + if is_ready { "passed\n" } else { "failed\n" }
}

async fn metrics(state: &State) -> Response<Full<Bytes>> {
    let metrics = state.metrics.clone();
    // Thousands of lines, and a walk over the descriptors: nothing that should hold up a worker.
    let page = match tokio::task::spawn_blocking(move || metrics.encode()).await {
        Ok(page) => page,
        Err(error) => match error.try_into_panic() {
            // What panics in there panics here, and stops the process like any other panic of a task.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => return text(StatusCode::SERVICE_UNAVAILABLE, "the process ends\n".to_owned()),
        },
    };
    let mut response = text(StatusCode::OK, page);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS));
    response
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(TEXT));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store"));
    response
}

// === impl Page ===

impl Page {
    fn of(uri: &http::Uri) -> Option<Self> {
        match uri.path() {
            "/livez" => Some(Self::Live),
            "/readyz" => Some(Self::Ready { detail: Detail::of(uri.query().unwrap_or_default()) }),
            "/metrics" => Some(Self::Metrics),
            _ => None,
        }
    }
}

// === impl Detail ===

impl Detail {
    /// The parameter counts, whatever its value.
    fn of(query: &str) -> Self {
        let is_verbose = query.split('&').any(|pair| pair.split('=').next() == Some("verbose"));
        if is_verbose { Self::Verbose } else { Self::Short }
    }
}
