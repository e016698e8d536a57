//! Paths and queries as upstream reads them, and which of them a mirror may serve.

use proptest::prelude::*;

use super::*;

fn parse(method: &str, target: &str) -> Result<RequestInfo, RequestInfoError> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    RequestInfo::parse(method, path, &Query::parse(query))
}

fn get(target: &str) -> RequestInfo {
    parse("GET", target).unwrap()
}

/// Verb, group/version, namespace, resource[/subresource], name.
fn judged(info: &RequestInfo) -> String {
    let Some(subresource) = (!info.subresource.is_empty()).then(|| format!("/{}", info.subresource)) else {
        return format!(
            "{} {}/{} {}:{} {}",
            info.verb, info.group, info.version, info.namespace, info.resource, info.name
        );
    };
    format!(
        "{} {}/{} {}:{}{subresource} {}",
        info.verb, info.group, info.version, info.namespace, info.resource, info.name
    )
}

fn collection(namespace: Option<&str>) -> Shape {
    Shape::Collection { namespace: namespace.map(str::to_owned) }
}

fn object(namespace: Option<&str>, name: &str) -> Shape {
    Shape::Object { namespace: namespace.map(str::to_owned), name: name.to_owned() }
}

fn legacy(namespace: Option<&str>, name: Option<&str>) -> Shape {
    Shape::LegacyWatch { namespace: namespace.map(str::to_owned), name: name.map(str::to_owned) }
}

/// Recorded from kube-apiserver's own reader: one request a line.
#[test]
fn reads_as_upstream_does() {
    let mut count = 0;
    for line in include_str!("../../tests/data/request_infos.jsonl").lines() {
        let recorded: serde_json::Value = serde_json::from_str(line).unwrap();
        let request = recorded["in"].as_str().unwrap();
        let (method, target) = request.split_once(' ').unwrap();
        let found = parse(method, target);
        let Some(expected) = recorded["info"].as_array() else {
            assert!(found.is_err(), "{request}");
            continue;
        };
        let info = found.unwrap();
        let is_resource_request = info.is_resource_request.to_string();
        let selector = |selector: &Option<String>| selector.clone().unwrap_or_default();
        let (fields, labels) = (selector(&info.field_selector), selector(&info.label_selector));
        let found = [
            &is_resource_request,
            &info.path,
            info.verb.as_str(),
            &info.api_prefix,
            &info.group,
            &info.version,
            &info.namespace,
            &info.resource,
            &info.subresource,
            &info.name,
            &fields,
            &labels,
        ];
        assert_eq!(found.as_slice(), expected.as_slice(), "{request}");
        count += 1;
    }
    assert!(count > 200, "only {count} recorded requests");
}

#[test]
fn reads_served_paths() {
    for (path, expected, shape) in [
        ("/api/v1/pods", "list /v1 :pods ", collection(None)),
        ("/api/v1/pods?watch", "watch /v1 :pods ", collection(None)),
        ("/api/v1/namespaces", "list /v1 :namespaces ", collection(None)),
        ("/api/v1/namespaces/a", "get /v1 a:namespaces a", object(None, "a")),
        ("/api/v1/namespaces/a/pods", "list /v1 a:pods ", collection(Some("a"))),
        ("/api/v1/namespaces/a/pods/b?watch=1", "get /v1 a:pods b", object(Some("a"), "b")),
        ("/api/v1/namespaces/status/pods", "list /v1 status:pods ", collection(Some("status"))),
        ("/apis/apps/v1/deployments", "list apps/v1 :deployments ", collection(None)),
        ("/apis/g.io/v1/namespaces/a/foos/b", "get g.io/v1 a:foos b", object(Some("a"), "b")),
        ("/api/v1/nodes/n", "get /v1 :nodes n", object(None, "n")),
        (
            "/apis/r/v1/clusterroles/system%3Anode",
            "get r/v1 :clusterroles system:node",
            object(None, "system:node"),
        ),
        ("/api/v1/namespaces/orch%61rd/pods", "list /v1 orchard:pods ", collection(Some("orchard"))),
        ("/api/v1/namespaces/a/pods/", "list /v1 a:pods ", collection(Some("a"))),
        ("/api/v1/namespaces/a/pods/b//", "get /v1 a:pods b", object(Some("a"), "b")),
        ("/api/v1/watch/pods?watch=0", "watch /v1 :pods ", legacy(None, None)),
        ("/api/v1/watch/namespaces/a/pods", "watch /v1 a:pods ", legacy(Some("a"), None)),
        ("/apis/g/v1/watch/namespaces/a/foos/b", "watch g/v1 a:foos b", legacy(Some("a"), Some("b"))),
        ("/api/v1/watch/namespaces/a", "watch /v1 a:namespaces a", legacy(None, Some("a"))),
    ] {
        let info = get(path);
        assert_eq!((judged(&info).as_str(), &info.shape), (expected, &shape), "{path}");
        assert!(info.is_resource_request);
    }
}

#[test]
fn reads_paths_that_are_passed_through() {
    for (path, expected, reason) in [
        ("/api/v1/namespaces/a/pods/b/log", "get /v1 a:pods/log b", Unserved::Subresource),
        ("/api/v1/namespaces/a/status", "get /v1 a:namespaces/status a", Unserved::Subresource),
        ("/api/v1/namespaces/a/finalize/x", "get /v1 a:namespaces/finalize a", Unserved::Subresource),
        ("/api/v1/namespaces/a/pods/b/proxy/x/y", "get /v1 a:pods/proxy b", Unserved::Subresource),
        ("/api/v1/proxy/namespaces/a/pods/b/x", "proxy /v1 a:pods b", Unserved::Subresource),
        ("/api/v1/watch/namespaces/a/pods/b/log", "watch /v1 a:pods/log b", Unserved::Subresource),
        ("/api/v1/namespaces/orchard%2Fpods", "list /v1 orchard:pods ", Unserved::EscapedSlash),
        ("/api/v1/namespaces/a/pods/b%2Flog", "get /v1 a:pods/log b", Unserved::EscapedSlash),
        ("/api/v1/namespaces/a/pods/%2e%2e", "get /v1 a:pods ..", Unserved::UncleanPath),
        ("/api/v1/namespaces/%2e%2e/pods", "list /v1 ..:pods ", Unserved::UncleanPath),
        ("/api/v1/../v1/pods", "get /v1 :../pods v1", Unserved::Subresource),
        ("//api/v1/pods", "list /v1 :pods ", Unserved::UncleanPath),
        ("/api//v1/pods", "get / :v1 pods", Unserved::UncleanPath),
        ("/api/v1//pods", "get /v1 : pods", Unserved::UncleanPath),
        ("/api/v1/namespaces//pods", "list /v1 :pods ", Unserved::UncleanPath),
        ("/apis/g/v1/namespaces//foos?watch=1", "watch g/v1 :foos ", Unserved::UncleanPath),
        ("/api/v1/namespaces//pods/x", "get /v1 :pods x", Unserved::UncleanPath),
        ("/api/v1/namespaces///pods", "get /v1 : pods", Unserved::UncleanPath),
        ("/api/v1/namespaces/a//pods", "get /v1 a: pods", Unserved::UncleanPath),
        ("/api/v1/watch/namespaces//pods", "watch /v1 :pods ", Unserved::UncleanPath),
        ("/api/v1/namespaces/a%20b/pods", "list /v1 a b:pods ", Unserved::UncleanPath),
        ("/api/v1/pods/a%25b", "get /v1 :pods a%b", Unserved::UncleanPath),
        ("/apis/g/v1/namespaces/x", "get g/v1 x:namespaces x", Unserved::UncleanPath),
        ("/api/v1/pods?x=%ff", "list /v1 :pods ", Unserved::UnreadableQuery),
    ] {
        let info = get(path);
        assert_eq!((judged(&info).as_str(), &info.shape), (expected, &Shape::Other(reason)), "{path}");
    }
}

#[test]
fn paths_without_a_resource_keep_the_method() {
    for path in [
        "/",
        "",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/apis",
        "/apis/g/v1",
        "/apis/g/v1/",
        "/version",
        "/a/b/c/d",
        "/API/v1/pods",
    ] {
        let info = get(path);
        assert_eq!((info.is_resource_request, info.verb.as_str()), (false, "get"), "{path}");
        assert_eq!(info.shape, Shape::Other(Unserved::NoResource));
        assert_eq!(info.path, path);
    }
    assert_eq!(parse("DELETE", "/x").unwrap().verb.as_str(), "delete");
}

#[test]
fn methods_become_verbs() {
    for (method, object, collection) in [
        ("GET", "get", "list"),
        ("HEAD", "get", "list"),
        ("POST", "create", "create"),
        ("PUT", "update", "update"),
        ("PATCH", "patch", "patch"),
        ("DELETE", "delete", "deletecollection"),
        ("OPTIONS", "", ""),
        ("get", "", ""),
    ] {
        let verb = |path| parse(method, path).unwrap().verb.as_str().to_owned();
        assert_eq!(
            (verb("/api/v1/nodes/n"), verb("/api/v1/nodes")),
            (object.to_owned(), collection.to_owned())
        );
        let shape = parse(method, "/api/v1/nodes").unwrap().shape;
        assert_eq!(shape == Shape::Other(Unserved::Method), method != "GET", "{method}");
    }
}

#[test]
fn unreadable_paths_are_errors() {
    assert_eq!(parse("GET", "/api/v1/pods/%zz"), Err(RequestInfoError::BadEscape));
    assert_eq!(parse("GET", "/api/v1/pods/%4"), Err(RequestInfoError::BadEscape));
    assert_eq!(parse("GET", "/api/v1/pods/%ff"), Err(RequestInfoError::NotUtf8));
    assert_eq!(parse("GET", "/api/v1/watch"), Err(RequestInfoError::NoResource));
    assert_eq!(parse("GET", "/apis/g/v1/proxy/"), Err(RequestInfoError::NoResource));
}

#[test]
fn watch_is_anything_but_false() {
    for (query, verb) in [
        ("watch", "watch"),
        ("watch=", "watch"),
        ("watch=no", "watch"),
        ("watch=%20false", "watch"),
        ("watch=00", "watch"),
        ("watch=0", "list"),
        ("watch=FALSE", "list"),
        ("WATCH=1", "list"),
        ("watch=false&watch=true", "list"),
        ("watch=1&limit=abc", "watch"),
        ("watch=%zz", "list"),
    ] {
        assert_eq!(get(&format!("/api/v1/pods?{query}")).verb.as_str(), verb, "{query}");
    }
}

#[test]
fn a_selector_may_name_one_object() {
    for (query, name) in [
        ("fieldSelector=metadata.name%3Dx", "x"),
        ("fieldSelector=metadata.name%3D%3Dx", "x"),
        ("watch=1&fieldSelector=type%3DOpaque%2Cmetadata.name%3Dx", "x"),
        ("fieldSelector=metadata.name%3Dx&labelSelector=a%3Db&limit=5&timeoutSeconds=1", "x"),
        ("fieldSelector=metadata.name!%3Dx", ""),
        ("fieldSelector=metadata.name%3D", ""),
        ("fieldSelector=metadata.name%3D..", ""),
        ("fieldSelector=metadata.name%3Da%2Fb", ""),
        ("fieldSelector=metadata.name%3Da%2525", ""),
        ("fieldSelector=metadata.name%3Dx&limit=abc", ""),
        ("fieldSelector=metadata.name%3Dx&limit=", ""),
        ("fieldSelector=metadata.name%3Dx&timeoutSeconds=1s", ""),
        ("fieldSelector=metadata.name%3Dx&labelSelector=-a", ""),
        ("fieldSelector=metadata.name", ""),
    ] {
        let info = get(&format!("/api/v1/namespaces/a/secrets?{query}"));
        assert_eq!(info.name, name, "{query}");
        assert_eq!(info.shape, collection(Some("a")));
        assert!(info.field_selector.is_some());
    }
    let info = parse("DELETE", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx").unwrap();
    assert_eq!((info.verb, info.name.as_str()), (Verb::DeleteCollection, ""));
    assert_eq!(info.field_selector.as_deref(), Some("metadata.name=x"));
}

#[test]
fn selectors_are_kept_as_written_for_collections_only() {
    let query = "fieldSelector=a&labelSelector=-x&labelSelector=y";
    let info = get(&format!("/api/v1/pods?{query}"));
    assert_eq!((info.field_selector.as_deref(), info.label_selector.as_deref()), (Some("a"), Some("-x")));
    let info = get(&format!("/api/v1/watch/pods?{query}"));
    assert_eq!((info.field_selector, info.label_selector), (None, None));
    let info = get(&format!("/api/v1/nodes/n?{query}"));
    assert_eq!((info.field_selector, info.label_selector), (None, None));
}

#[test]
fn names_the_resource() {
    let resource = get("/apis/apps/v1/namespaces/a/deployments").group_version_resource();
    assert_eq!(resource, GroupVersionResource::new("apps", "v1", "deployments"));
}

/// The path that a client would write for a served shape.
fn canonical(info: &RequestInfo) -> Option<String> {
    let base = if info.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", info.group) };
    let base = format!("{base}/{}", info.version);
    let inside = |namespace: &Option<String>| {
        namespace.as_ref().map_or(String::new(), |name| format!("/namespaces/{name}"))
    };
    let resource = &info.resource;
    match &info.shape {
        Shape::Collection { namespace } => Some(format!("{base}{}/{resource}", inside(namespace))),
        Shape::Object { namespace, name } => Some(format!("{base}{}/{resource}/{name}", inside(namespace))),
        Shape::LegacyWatch { namespace, name } => {
            let name = name.as_ref().map_or(String::new(), |name| format!("/{name}"));
            Some(format!("{base}/watch{}/{resource}{name}", inside(namespace)))
        }
        Shape::Other(_) => None,
    }
}

proptest! {
    #[test]
    fn never_panics(method in "[A-Za-z]{0,6}", path in "\\PC{0,40}", query in "\\PC{0,40}") {
        let _ = RequestInfo::parse(&method, &path, &Query::parse(&query));
    }

    /// A served shape says all that its path says: written out again, it is judged the same.
    #[test]
    fn served_shapes_round_trip(
        parts in proptest::collection::vec(proptest::sample::select(&[
            "api", "apis", "v1", "watch", "namespaces", "a", "", "..", ".", "status", "pods", "%2e", "a%2fb", "proxy",
        ][..]), 0..8),
        is_apis in any::<bool>(),
    ) {
        let prefix = if is_apis { "/apis/g/v1/" } else { "/api/v1/" };
        let path = format!("{prefix}{}", parts.join("/"));
        let Ok(info) = parse("GET", &path) else { return Ok(()) };
        let Some(canonical) = canonical(&info) else { return Ok(()) };
        let again = get(&canonical);
        prop_assert_eq!(&again.shape, &info.shape, "{} {}", path, canonical);
        prop_assert_eq!(judged(&again), judged(&info));
        if let Shape::Collection { namespace: Some(namespace) } | Shape::Object { namespace: Some(namespace), .. } = &info.shape {
            prop_assert_eq!(namespace, &info.namespace);
        }
    }
}
