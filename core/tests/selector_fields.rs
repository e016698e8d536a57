//! Field selectors: their grammar, the fields of every resource, and what terms hold for the text in an object.

use proptest::prelude::*;
use weir_core::GroupVersionResource;
use weir_core::Status;
use weir_core::interest::{FieldTarget, FieldTerm};
use weir_core::options::ListOptions;
use weir_core::query::Query;
use weir_core::selector::{CustomFields, FieldSelector, FieldTable};

fn table(group: &str, version: &str, resource: &str) -> FieldTable {
    let resource = GroupVersionResource::new(group, version, resource);
    FieldTable::of(&resource, None).expect("the resource has a table")
}

fn resolve(table: &FieldTable, text: &str) -> Result<Vec<FieldTerm>, String> {
    let selector = FieldSelector::parse(text).expect("the selector is well written");
    table.resolve(&selector).map_err(|error| Status::from(error).message.into_owned())
}

fn term(target: FieldTarget, is_negated: bool, value: &str) -> FieldTerm {
    FieldTerm { target, is_negated, value: value.into() }
}

/// Whether the selector holds for an object in which the one field has this text, empty where it is missing.
fn holds(table: &FieldTable, text: &str, written: &str) -> bool {
    let terms = resolve(table, text).expect("the labels are known");
    terms.iter().all(|term| {
        let value = if term.target == FieldTarget::NeverSet { "" } else { written };
        (value == &*term.value) != term.is_negated
    })
}

#[test]
fn terms_are_split_and_unescaped() {
    let terms = |text: &str| -> Vec<(String, String, String)> {
        let selector = FieldSelector::parse(text).unwrap();
        selector
            .requirements()
            .iter()
            .map(|one| (one.label.clone(), one.operator.to_string(), one.value.clone()))
            .collect()
    };
    let term = |label: &str, sign: &str, value: &str| (label.to_owned(), sign.to_owned(), value.to_owned());
    assert_eq!(terms(",,b==x,a!=,"), [term("a", "!=", ""), term("b", "=", "x")]);
    assert_eq!(terms("a = b"), [term("a ", "=", " b")]);
    assert_eq!(terms(r"a=\\\,\=b"), [term("a", "=", r"\,=b")]);
    assert_eq!(terms("a!b=c"), [term("a!b", "=", "c")]);
    assert_eq!(terms(r"a\,b=c"), [term(r"a\,b", "=", "c")]);
    assert_eq!(terms("=,!=,==,=b"), [term("", "=", "b")]);
    assert!(FieldSelector::parse(",").unwrap().is_everything());
}

#[test]
fn each_kind_refuses_in_its_own_words() {
    let default = |label: &str| {
        format!("\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    };
    for (group, version, resource, label, words) in [
        ("", "v1", "pods", "spec.foo", "field label not supported: spec.foo".to_owned()),
        ("", "v1", "pods", "", "field label not supported: ".to_owned()),
        ("", "v1", "nodes", "metadata.namespace", "field label not supported: metadata.namespace".to_owned()),
        ("", "v1", "namespaces", "name", "field label not supported: name".to_owned()),
        ("", "v1", "secrets", "Type", "field label not supported: Type".to_owned()),
        ("", "v1", "configmaps", "data", default("data")),
        ("", "v1", "persistentvolumes", "name", default("name")),
        ("apps", "v1", "replicasets", "status.replicas", default("status.replicas")),
        ("batch", "v1", "cronjobs", "status.successful", default("status.successful")),
        ("batch", "v1", "jobs", "a\"b", "field label \"a\\\"b\" not supported for Job".to_owned()),
        (
            "resource.k8s.io",
            "v1beta2",
            "resourceslices",
            "metadata.namespace",
            "field label not supported for resource.k8s.io/v1beta2, Kind=ResourceSlice: metadata.namespace"
                .to_owned(),
        ),
        (
            "certificates.k8s.io",
            "v1",
            "podcertificaterequests",
            "metadata.namespace",
            "field label not supported: metadata.namespace".to_owned(),
        ),
    ] {
        let table = table(group, version, resource);
        assert_eq!(resolve(&table, &format!("{label}=x")), Err(words), "{resource} {label}");
    }
    // Of several unknown labels the first by text is told.
    assert_eq!(
        resolve(&table("", "v1", "pods"), "zed=1,abc=2"),
        Err("field label not supported: abc".to_owned())
    );
}

#[test]
fn fields_stand_where_upstream_writes_them() {
    for (group, resource, fields) in [
        (
            "",
            "pods",
            &[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ][..],
        ),
        ("", "nodes", &["spec.unschedulable"]),
        ("", "namespaces", &["status.phase"]),
        ("", "secrets", &["type"]),
        ("", "services", &["spec.clusterIP", "spec.type"]),
        ("", "replicationcontrollers", &["status.replicas"]),
        ("", "configmaps", &[]),
        ("batch", "jobs", &["status.succeeded"]),
        ("certificates.k8s.io", "certificatesigningrequests", &["spec.signerName"]),
        ("certificates.k8s.io", "clustertrustbundles", &["spec.signerName"]),
        (
            "certificates.k8s.io",
            "podcertificaterequests",
            &["spec.signerName", "spec.podName", "spec.nodeName"],
        ),
        ("resource.k8s.io", "resourceslices", &["spec.nodeName", "spec.driver", "spec.pool.name"]),
    ] {
        let table = table(group, "v1", resource);
        let paths: Vec<String> = table.fields().iter().map(|field| field.path.join(".")).collect();
        assert_eq!(paths, fields, "{resource}");
    }
    for group in ["", "events.k8s.io"] {
        assert_eq!(FieldTable::of(&GroupVersionResource::new(group, "v1", "events"), None), None);
    }
}

#[test]
fn labels_become_targets() {
    let pods = table("", "v1", "pods");
    assert_eq!(
        resolve(
            &pods,
            "spec.nodeName=n,metadata.namespace!=kube-system,metadata.name=p,status.podIPs=,spec.host=n"
        ),
        Ok(vec![
            term(FieldTarget::Name, false, "p"),
            term(FieldTarget::Namespace, true, "kube-system"),
            term(FieldTarget::Field(0), false, "n"),
            term(FieldTarget::NeverSet, false, ""),
        ])
    );
}

#[test]
fn values_that_are_left_out_are_known() {
    let pods = table("", "v1", "pods");
    for (text, missing, yes, no) in [
        ("spec.hostNetwork=false", true, false, true),
        ("spec.hostNetwork!=false", false, true, false),
        ("spec.hostNetwork=true", false, true, false),
        ("spec.hostNetwork!=true", true, false, true),
        ("spec.hostNetwork=", false, false, false),
        ("spec.hostNetwork!=", true, true, true),
        ("spec.hostNetwork=yes", false, false, false),
    ] {
        let found = ["", "true", "false"].map(|written| holds(&pods, text, written));
        assert_eq!(found, [missing, yes, no], "{text}");
    }
    let jobs = table("batch", "v1", "jobs");
    for (text, missing, one) in [
        ("status.successful=0", true, false),
        ("status.successful!=0", false, true),
        ("status.successful=1", false, true),
        ("status.successful=", false, false),
        ("status.successful!=", true, true),
    ] {
        assert_eq!(["", "1"].map(|written| holds(&jobs, text, written)), [missing, one], "{text}");
    }
}

#[test]
fn custom_resources_bring_their_own() {
    let resource = GroupVersionResource::new("metering.weir.test", "v1", "gauges");
    let custom = |is_namespaced| CustomFields {
        is_namespaced,
        json_paths: vec![".spec.color".into(), ".spec.size".into()],
    };
    let namespaced = FieldTable::of(&resource, Some(&custom(true))).unwrap();
    assert_eq!(
        resolve(&namespaced, "spec.size=5,metadata.namespace=a"),
        Ok(vec![term(FieldTarget::Namespace, false, "a"), term(FieldTarget::Field(1), false, "5")])
    );
    assert_eq!(resolve(&namespaced, ".spec.size=5"), Err("field label not supported: .spec.size".to_owned()));
    let cluster = FieldTable::of(&resource, Some(&custom(false))).unwrap();
    assert_eq!(
        resolve(&cluster, "metadata.namespace="),
        Err("field label not supported: metadata.namespace".to_owned())
    );
    assert_eq!(cluster.fields()[0].path, ["spec", "color"]);
}

#[test]
fn the_name_in_the_url_narrows() {
    let pods = table("", "v1", "pods");
    let terms = |query: &str, name: Option<&str>| {
        ListOptions::decode(&Query::parse(query))
            .unwrap()
            .field_terms(&pods, name)
            .map_err(|status| status.message)
    };
    let named = term(FieldTarget::Name, false, "p");
    assert_eq!(terms("", None), Ok(vec![]));
    assert_eq!(terms("", Some("p")), Ok(vec![named.clone()]));
    assert_eq!(
        terms("fieldSelector=metadata.name%3Dp,spec.host%3Dn", Some("p")),
        Ok(vec![named, term(FieldTarget::Field(0), false, "n")])
    );
    for selector in ["metadata.name%3Dq", "spec.host%3Dn", "metadata.name!%3Dp"] {
        assert_eq!(
            terms(&format!("fieldSelector={selector}"), Some("p")),
            Err("fieldSelector metadata.name doesn't match requested name".into())
        );
    }
    assert_eq!(terms("fieldSelector=a%3Db", Some("p")), Err("field label not supported: a".into()));
}

proptest! {
    #[test]
    fn canonical_forms_parse_to_themselves(text in r"[ab=!\\, ]{0,20}") {
        if let Ok(selector) = FieldSelector::parse(&text) {
            // Terms are sorted as they were written, `==` before any other value, and canonical forms are written with `=`.
            let written = selector.to_string();
            let canonical = FieldSelector::parse(&written).unwrap().to_string();
            let again = FieldSelector::parse(&canonical);
            prop_assert_eq!(again.map(|again| again.to_string()), Ok(canonical));
        }
    }

    #[test]
    fn values_survive_their_escapes(value in any::<String>()) {
        let selector = FieldSelector::equals("a", &value);
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn no_text_is_too_strange(text in any::<String>()) {
        let _ = FieldSelector::parse(&text);
    }
}
