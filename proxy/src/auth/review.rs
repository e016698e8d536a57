//! Access reviews as upstream takes them and what their answers mean. A review names everything that upstream's authorizers see
//! of the request itself, so that they decide the same.
//!
//! Selectors go as the client wrote them, not as weir reads them: upstream reads them in a review with the same code as in a
//! request, and whether it heeds them at all is a matter of its version.

use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_core::request_info::RequestInfo;
use weir_upstream::ReviewAnswer;

use super::decisions::Reviewed;

/// A SelfSubjectAccessReview.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Review<'a> {
    api_version: &'static str,
    kind: &'static str,
    spec: ReviewSpec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewSpec<'a> {
    resource_attributes: ResourceAttributes<'a>,
}

/// What a caller wants to do.
#[derive(Clone, Copy, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceAttributes<'a> {
    namespace: &'a str,
    verb: &'a str,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    subresource: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<Selector<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<Selector<'a>>,
}

#[derive(Clone, Copy, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
struct Selector<'a> {
    raw_selector: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    status: Decision,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Decision {
    allowed: bool,
    denied: bool,
    reason: String,
    evaluation_error: String,
}

// === impl Review ===

impl<'a> Review<'a> {
    /// Whether somebody may do what a request asks.
    pub(super) fn of(info: &'a RequestInfo) -> Self {
        let resource_attributes = ResourceAttributes::of(info);
        Self {
            api_version: "authorization.k8s.io/v1",
            kind: "SelfSubjectAccessReview",
            spec: ReviewSpec { resource_attributes },
        }
    }

    /// As it is sent.
    pub(super) fn body(&self) -> Bytes {
        serde_json::to_vec(self).expect("text in structs is always JSON").into()
    }
}

// === impl ResourceAttributes ===

impl<'a> ResourceAttributes<'a> {
    /// What a request asks.
    pub(super) fn of(info: &'a RequestInfo) -> Self {
        Self {
            namespace: &info.namespace,
            verb: info.verb.as_str(),
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            name: &info.name,
            field_selector: Selector::of(info.field_selector.as_deref()),
            label_selector: Selector::of(info.label_selector.as_deref()),
        }
    }
}

// === impl Selector ===

impl<'a> Selector<'a> {
    /// An empty one is none; upstream refuses to review it.
    fn of(raw: Option<&'a str>) -> Option<Self> {
        raw.filter(|raw| !raw.is_empty()).map(|raw_selector| Self { raw_selector })
    }
}

/// What an answer says. Anything but a plain yes is a no, if it is an answer at all; upstream's 401 is one.
pub(super) fn judge(answer: &ReviewAnswer) -> Reviewed {
    if answer.status.is_client_error() && answer.status != StatusCode::TOO_MANY_REQUESTS {
        return Reviewed::Denied;
    }
    if !answer.status.is_success() {
        return Reviewed::Undecided;
    }
    let Ok(Answer { status }) = serde_json::from_slice(&answer.body) else { return Reviewed::Undecided };
    let is_plain_yes = status.allowed && !status.denied && status.evaluation_error.is_empty();
    if is_plain_yes { Reviewed::Allowed } else { Reviewed::Denied }
}

/// What upstream says to its decision; empty where it says nothing.
pub(super) fn reason(answer: &ReviewAnswer) -> String {
    let said: Result<Answer, _> = serde_json::from_slice(&answer.body);
    said.map(|said| said.status.reason).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weir_core::query::Query;

    use super::*;

    fn attributes(path: &str, query: &str) -> Value {
        let info = RequestInfo::parse("GET", path, &Query::parse(query)).unwrap();
        serde_json::to_value(Review::of(&info)).unwrap()["spec"]["resourceAttributes"].clone()
    }

    #[test]
    fn au05_a_review_has_the_selectors_of_lists_and_watches_as_they_were_written() {
        let query = "fieldSelector=spec.nodeName%3Dn1&labelSelector=app+in+(a,b)";
        for (query, verb) in [(query.to_owned(), "list"), (format!("{query}&watch=true"), "watch")] {
            let asked = attributes("/api/v1/namespaces/harbor/pods", &query);
            let expected = json!({
                "namespace": "harbor", "verb": verb, "group": "", "version": "v1", "resource": "pods",
                "subresource": "", "name": "",
                "fieldSelector": {"rawSelector": "spec.nodeName=n1"},
                "labelSelector": {"rawSelector": "app in (a,b)"},
            });
            assert_eq!(asked, expected);
        }
        let named = attributes("/api/v1/pods", "fieldSelector=metadata.name%3Dcrane-0");
        assert_eq!(
            (&named["name"], &named["fieldSelector"]["rawSelector"]),
            (&json!("crane-0"), &json!("metadata.name=crane-0"))
        );
    }

    #[test]
    fn au05_a_review_has_no_selectors_where_upstream_heeds_none() {
        for (path, query) in [
            ("/api/v1/watch/pods", "fieldSelector=spec.nodeName%3Dn1&labelSelector=a"),
            ("/api/v1/namespaces/harbor/pods/crane-0", "fieldSelector=spec.nodeName%3Dn1&labelSelector=a"),
            ("/api/v1/pods", "fieldSelector=&labelSelector="),
        ] {
            let asked = attributes(path, query);
            assert!(asked.get("fieldSelector").is_none() && asked.get("labelSelector").is_none(), "{asked}");
        }
    }

    #[test]
    fn only_a_plain_yes_is_one_and_no_answer_is_no_no() {
        let judged = |code: u16, body: &str| {
            let status = StatusCode::from_u16(code).unwrap();
            judge(&ReviewAnswer { status, body: body.to_owned().into() })
        };
        assert_eq!(judged(201, r#"{"status":{"allowed":true,"reason":"RBAC"}}"#), Reviewed::Allowed);
        for body in [
            r#"{"status":{"allowed":false}}"#,
            r#"{"status":{"allowed":true,"denied":true}}"#,
            r#"{"status":{"allowed":true,"evaluationError":"spec.x ignored"}}"#,
            r#"{"status":{}}"#,
        ] {
            assert_eq!(judged(201, body), Reviewed::Denied, "{body}");
        }
        for (code, reviewed) in [
            (401, Reviewed::Denied),
            (403, Reviewed::Denied),
            (429, Reviewed::Undecided),
            (500, Reviewed::Undecided),
        ] {
            assert_eq!(judged(code, "{}"), reviewed, "{code}");
        }
        assert_eq!(judged(200, "<html>"), Reviewed::Undecided);
    }
}
