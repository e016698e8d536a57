//! What lists, watches and gets ask for: the matrix of resourceVersion, its match, limit, token and initial events.

use std::time::Duration;

use weir_core::options::{
    Freshness, GetIntent, ListAt, ListIntent, ListOptions, PageLimit, PathForm, Reach, WatchIntent,
    WatchListGate, WatchTimeout, request_timeout,
};
use weir_core::query::Query;
use weir_core::{ResourceVersion, Status};

const ANY: ListAt = ListAt::Latest(Freshness::Any);
const CONSISTENT: ListAt = ListAt::Latest(Freshness::Consistent);

fn options(query: &str) -> ListOptions {
    let mut options = ListOptions::decode(&Query::parse(query)).expect("the query decodes");
    options.validate(WatchListGate::On).unwrap_or_else(|status| panic!("{query}: {}", status.message));
    options
}

fn list(query: &str) -> ListIntent {
    options(query).list_intent(Reach::Collection).expect("the version is good")
}

fn since(number: u64) -> Freshness {
    Freshness::NotOlderThan(ResourceVersion::new(number))
}

#[test]
fn lists_resolve_as_the_matrix_says() {
    let exactly = |number| ListAt::Exact(ResourceVersion::new(number));
    for (query, at, limit) in [
        ("", CONSISTENT, 0),
        ("limit=5", CONSISTENT, 5),
        ("resourceVersion=0", ANY, 0),
        ("resourceVersion=0&limit=5", ANY, 0),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=5", ANY, 0),
        ("resourceVersion=7", ListAt::Latest(since(7)), 0),
        ("resourceVersion=7&limit=-3", ListAt::Latest(since(7)), 0),
        ("resourceVersion=7&limit=5", exactly(7), 5),
        ("resourceVersion=7&resourceVersionMatch=Exact", exactly(7), 0),
        ("resourceVersion=7&resourceVersionMatch=Exact&limit=5", exactly(7), 5),
        ("resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=5", ListAt::Latest(since(7)), 5),
        ("resourceVersion=00", ANY, 0),
        ("resourceVersion=00&limit=5", CONSISTENT, 5),
        ("resourceVersion=00&resourceVersionMatch=Exact", CONSISTENT, 0),
        ("resourceVersion=00&resourceVersionMatch=NotOlderThan&limit=5", ANY, 5),
    ] {
        assert_eq!(list(query), ListIntent { at, limit: PageLimit::new(limit) }, "{query}");
    }
}

#[test]
fn the_limit_of_one_object_does_not_make_it_exact() {
    let intent = options("resourceVersion=7&limit=5").list_intent(Reach::Object).unwrap();
    assert_eq!(intent.at, ListAt::Latest(since(7)));
}

#[test]
fn a_token_is_judged_before_the_version_beside_it() {
    let continued = |query: &str| match list(query) {
        ListIntent { at: ListAt::Continue(continuation), limit } => (continuation, limit),
        other => panic!("{query}: {other:?}"),
    };
    let decoded = |query: &str| continued(query).0.decode(|token| Ok(token.to_owned()));
    assert_eq!(decoded("continue=abc").unwrap(), "abc");
    assert_eq!(decoded("continue=abc&resourceVersion=0").unwrap(), "abc");
    for version in ["5", "00", "abc"] {
        let status = decoded(&format!("continue=x&resourceVersion={version}")).unwrap_err();
        assert_eq!(status.message, "specifying resource version is not allowed when using continue");
    }
    let bad = |_: &str| Err::<(), _>(Status::bad_request("bad token"));
    assert_eq!(continued("continue=x&resourceVersion=5").0.decode(bad).unwrap_err().message, "bad token");
    assert_eq!(continued("continue=x&limit=5").1, PageLimit::new(5));
    assert_eq!(continued("continue=x&limit=5&resourceVersion=0").1, None);
}

#[test]
fn watches_resolve_as_the_matrix_says() {
    let state = |freshness, has_end_bookmark| WatchIntent::State { freshness, has_end_bookmark };
    let changes = |freshness| WatchIntent::Changes { freshness };
    let after = |number| WatchIntent::After(ResourceVersion::new(number));
    let initial = "watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents";
    for (query, intent) in [
        ("watch=1".to_owned(), state(Freshness::Consistent, false)),
        ("watch=1&allowWatchBookmarks=1".to_owned(), state(Freshness::Consistent, true)),
        ("watch=1&resourceVersion=0&allowWatchBookmarks=1".to_owned(), state(Freshness::Any, true)),
        ("watch=1&resourceVersion=00&allowWatchBookmarks=1".to_owned(), state(Freshness::Any, false)),
        ("watch=1&resourceVersion=7&allowWatchBookmarks=1".to_owned(), after(7)),
        (format!("{initial}=1&allowWatchBookmarks=1"), state(Freshness::Consistent, true)),
        (format!("{initial}=1&resourceVersion=0"), state(Freshness::Any, false)),
        (format!("{initial}=1&resourceVersion=7&allowWatchBookmarks=1"), state(since(7), true)),
        (format!("{initial}=0"), changes(Freshness::Consistent)),
        (format!("{initial}=0&resourceVersion=0"), changes(Freshness::Any)),
        (format!("{initial}=0&resourceVersion=7"), after(7)),
        // A path with /watch/ and no `watch` in the query.
        (String::new(), state(Freshness::Any, false)),
        ("resourceVersion=0&allowWatchBookmarks=1".to_owned(), state(Freshness::Any, false)),
        ("resourceVersion=7".to_owned(), after(7)),
    ] {
        assert_eq!(options(&query).watch_intent(), Ok(intent), "{query}");
    }
    assert!(options("").is_watch(PathForm::Watch) && !options("").is_watch(PathForm::Plain));
    assert!(options("watch=1").is_watch(PathForm::Plain));
}

#[test]
fn bad_versions_are_told_in_upstreams_words() {
    let text = "resourceVersion: Invalid value: \"-1\": strconv.ParseUint: parsing \"-1\": invalid syntax";
    let list = options("resourceVersion=-1").list_intent(Reach::Collection).unwrap_err();
    assert_eq!(
        (list.code, list.message.as_ref()),
        (400, format!("invalid resource version: {text}").as_str())
    );
    let watch = options("watch=1&resourceVersion=-1").watch_intent().unwrap_err();
    assert_eq!((watch.code, watch.reason.as_ref(), watch.message.as_ref()), (400, "BadRequest", text));
}

#[test]
fn gets_look_at_the_version_alone() {
    for (query, intent) in [
        ("limit=abc", GetIntent::Point(Freshness::Consistent)),
        ("resourceVersion=0", GetIntent::Point(Freshness::Any)),
        ("resourceVersion=00", GetIntent::Point(Freshness::Any)),
        ("resourceVersion=7&export=0", GetIntent::Point(since(7))),
        ("resourceVersion=x", GetIntent::Refused),
        ("export", GetIntent::Refused),
    ] {
        assert_eq!(GetIntent::of(&Query::parse(query)), intent, "{query}");
    }
}

#[test]
fn shard_selectors_are_never_lost() {
    let shard = |query: &str| options(query).shard_selector();
    assert_eq!(shard("shardSelector="), Ok(None));
    assert!(!options("shardSelector=").has_shard_selector());
    assert_eq!(shard("shardSelector=%20").unwrap_err().code, 400);
    for query in ["shardSelector=bad%zz", "shardSelector=a;b", "shardSelector=&x=%zshardSelector"] {
        let status = shard(query).unwrap_err();
        assert_eq!(status.message, "invalid shard selector: the query pair cannot be decoded", "{query}");
        assert!(options(query).has_shard_selector());
    }
    let text = "shardSelector=shardRange(object.metadata.uid,'0x0','0x1')";
    let canonical = "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001')";
    assert_eq!(shard(text).unwrap().unwrap().to_string(), canonical);
}

/// SH-10: client libraries escape quotes, spaces and bars in many ways.
#[test]
fn a_shard_selector_is_the_same_in_every_escaping() {
    let plain =
        "shardRange(object.metadata.uid, '0x0', '0x8') || shardRange(object.metadata.uid, '0x8', '0x9')";
    let canonical = options(&format!("shardSelector={plain}")).shard_selector().unwrap().unwrap().to_string();
    for text in [
        plain.replace(' ', "+"),
        plain.replace(' ', "%20").replace('\'', "%27"),
        plain.replace('|', "%7c").replace('(', "%28").replace(')', "%29").replace(',', "%2C"),
        plain.replace(' ', ""),
        format!("%20+{plain}%0A"),
        plain.bytes().map(|byte| format!("%{byte:02X}")).collect(),
    ] {
        let selector = options(&format!("shardSelector={text}")).shard_selector().unwrap().unwrap();
        assert_eq!(selector.to_string(), canonical, "{text}");
    }
}

#[test]
fn timeouts_of_requests() {
    let most = Duration::from_secs(60);
    let timeout = |text: &str| request_timeout(&Query::parse(&format!("timeout={text}")), most);
    for (text, seconds) in [
        ("", 60.0),
        ("0", 60.0),
        ("-5s", 60.0),
        ("7m15s", 60.0),
        ("1.5s", 1.5),
        ("%2B.5s", 0.5),
        ("1s500ms", 1.5),
    ] {
        assert_eq!(timeout(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
    }
    for (text, words) in [
        ("abc", "invalid duration \"abc\""),
        ("5", "missing unit in duration \"5\""),
        ("5x", "unknown unit \"x\" in duration \"5x\""),
        (".s", "invalid duration \".s\""),
        ("-", "invalid duration \"-\""),
        ("9223372036854775809", "invalid duration \"9223372036854775809\""),
        ("2562048h", "invalid duration \"2562048h\""),
    ] {
        let status = timeout(text).unwrap_err();
        assert_eq!(status.code, 400);
        assert_eq!(status.message, format!("invalid timeout specified in the request URL - time: {words}"));
    }
}

#[test]
fn timeouts_of_watches() {
    for (seconds, timeout) in [
        (None, WatchTimeout::Unset),
        (Some(0), WatchTimeout::Unset),
        (Some(i64::MIN), WatchTimeout::Unset),
        (Some(1), WatchTimeout::After(Duration::from_secs(1))),
        (Some(-1), WatchTimeout::Over),
        (Some(i64::MAX), WatchTimeout::Over),
    ] {
        assert_eq!(WatchTimeout::of(seconds), timeout, "{seconds:?}");
    }
}
