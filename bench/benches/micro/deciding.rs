//! What a remembered decision adds to a request: who asks, what for, and the look-up.

use divan::Bencher;
use http::Request;
use tokio::runtime::{Builder, Runtime};
use weir_bench::simulated::{Collection, Simulated, TOKEN};
use weir_core::query::Query;
use weir_core::request_info::RequestInfo;
use weir_daemon::Lifecycle;
use weir_proxy::auth::{Authorizer, DecisionLimits};

const PATH: &str = "/api/v1/namespaces/default/configmaps";
const QUERY: &str = "allowWatchBookmarks=true&labelSelector=app%3Dweb&resourceVersion=12345&watch=true";
const HOUR: std::time::Duration = std::time::Duration::from_secs(3_600);

/// The check of a request whose like was allowed a moment ago. Bound: 5 µs.
#[divan::bench(max_time = 1)]
fn remembered_decision(bencher: Bencher<'_, '_>) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (_upstream, authorizer) = authorizer(&runtime);
    let info = RequestInfo::parse("GET", PATH, &Query::parse(QUERY)).expect("it is well formed");
    let request = Request::builder().header("authorization", format!("Bearer {TOKEN}")).body(());
    let (parts, ()) = request.expect("a request").into_parts();
    runtime.block_on(authorizer.authorize(&parts, &info)).expect("the token may do everything");
    bencher.bench_local(|| {
        let permit = runtime.block_on(authorizer.authorize(divan::black_box(&parts), &info));
        permit.expect("it is remembered")
    });
}

fn authorizer(runtime: &Runtime) -> (Simulated, Authorizer) {
    runtime.block_on(async {
        let upstream = Simulated::start(Collection { objects: 1, data_bytes: 1 }).await.expect("upstream");
        let reached = upstream.origin.reach(&Lifecycle::new()).await.expect("a way to it");
        let limits = DecisionLimits { allowed: HOUR, ..DecisionLimits::default() };
        (upstream, Authorizer::new(reached).remembering(limits))
    })
}
