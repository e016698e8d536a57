//! When a tick may be sent, in paused time, and what its answer has to show.

use super::*;
use weir_core::GroupVersionResource;
use weir_core::mirror::JsonForm;
use weir_core::object::ObjectSchema;

fn spec(resource: &str, is_namespaced: bool) -> MirrorSpec {
    let resource = GroupVersionResource::new("apps", "v1", resource);
    MirrorSpec {
        resource,
        kind: "Kind".into(),
        is_namespaced,
        form: JsonForm::BuiltIn,
        schema: Arc::new(ObjectSchema::bare()),
    }
}

fn tick() -> Tick {
    let namespace: TickNamespace = "weir".parse().unwrap();
    Tick::of(&spec("deployments", true), &namespace, &FeedCounters::default()).unwrap()
}

#[test]
fn a_namespace_is_a_label() {
    for name in ["weir", "a", "0", "team-0", &"x".repeat(63)] {
        assert_eq!(name.parse::<TickNamespace>().unwrap().to_string(), name);
    }
    for name in ["", "-a", "a-", "A", "a.b", "a/b", "a?b", "ä", &"x".repeat(64)] {
        assert_eq!(name.parse::<TickNamespace>(), Err(NotANamespace), "{name}");
    }
}

#[tokio::test]
async fn only_kinds_in_namespaces_tick() {
    let namespace: TickNamespace = "weir".parse().unwrap();
    let of = |spec: MirrorSpec| Tick::of(&spec, &namespace, &FeedCounters::default()).map(|tick| tick.path);
    let path = "/apis/apps/v1/namespaces/weir/deployments/weir-tick?fieldManager=weir";
    assert_eq!(of(spec("deployments", true)).as_deref(), Some(path));
    assert_eq!(of(spec("machines", false)), None);
}

#[tokio::test(start_paused = true)]
async fn ticks_are_never_more_than_five_a_second() {
    let (tick, began) = (tick(), Instant::now());
    let mut sent = Vec::new();
    while began.elapsed() < Duration::from_secs(10) {
        // As often as time can be told apart, somebody waits.
        if tick.due() <= Instant::now() {
            tick.begin();
            sent.push(Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(sent.len() > 40, "{}", sent.len());
    for six in sent.windows(6) {
        assert!(six[5] - six[0] >= Duration::from_secs(1), "{six:?}");
    }
    assert_eq!(tick.counters.ticks.get(), sent.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_is_not_followed_for_a_minute() {
    let tick = tick();
    tick.begin();
    assert!(tick.works());
    tick.fail();
    assert_eq!((tick.works(), tick.due()), (false, Instant::now() + REST));
    tokio::time::advance(REST - Duration::from_millis(1)).await;
    assert!(!tick.works());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(tick.works() && tick.due() <= Instant::now(), "it is looked at again");
    tick.begin();
    assert_eq!(tick.due(), Instant::now() + APART);
    assert_eq!((tick.counters.ticks.get(), tick.counters.failed_ticks.get()), (2, 1));
}

#[test]
fn an_answer_counts_only_where_it_shows_what_was_written() {
    let answer = |metadata: &str| {
        let answer: Answer = serde_json::from_str(&format!(r#"{{"metadata":{{{metadata}}}}}"#)).unwrap();
        answer.written("new").ok()
    };
    let wrote = answer(r#""resourceVersion":"7","annotations":{"weir.dev/tick":"new","other":"x"}"#);
    assert_eq!(wrote, Some(ResourceVersion::new(7)));
    // Somebody changed it on the way, or took it out: nothing may have been written.
    assert_eq!(answer(r#""resourceVersion":"7","annotations":{"weir.dev/tick":"old"}"#), None);
    assert_eq!(answer(r#""resourceVersion":"7""#), None);
    assert_eq!(answer(r#""resourceVersion":"none","annotations":{"weir.dev/tick":"new"}"#), None);
}
