//! An event in the form and the order of fields in which kube-apiserver writes it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::HeaderMap;
use http::header::USER_AGENT;
use serde::{Serialize, Serializer};
use weir_core::Status;
use weir_core::request_info::RequestInfo;

use crate::auth::Identity;

/// How much of a User-Agent is written, and what says that there is more.
const MAX_AGENT: usize = 1_024;
const TRUNCATED: &str = "...TRUNCATED";

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Stage {
    /// The head of an answer that goes on is out.
    ResponseStarted,
    /// The answer has ended, however it did.
    ResponseComplete,
}

/// One event.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    pub(crate) audit_id: String,
    stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    #[serde(serialize_with = "shared")]
    user: Arc<Identity>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    source_ips: Vec<IpAddr>,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_agent: String,
    object_ref: ObjectRef,
    response_status: ResponseStatus,
    request_received_timestamp: String,
    stage_timestamp: String,
    annotations: BTreeMap<&'static str, String>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
}

/// What was answered, as a Status without anything that an object could be in.
#[derive(Clone, Debug, Default, Serialize)]
struct ResponseStatus {
    metadata: BTreeMap<(), ()>,
    #[serde(skip_serializing_if = "str::is_empty")]
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: Cow<'static, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: Cow<'static, str>,
    code: u16,
}

// === impl Event ===

impl Event {
    /// A request that came in then, by somebody whom upstream allowed it for this reason.
    pub(crate) fn new(
        (info, uri, headers): (&RequestInfo, &http::Uri, &HeaderMap),
        (user, reason): (Arc<Identity>, Option<&str>),
        (peer, received): (Option<IpAddr>, SystemTime),
        audit_id: String,
    ) -> Self {
        let decision = ("authorization.k8s.io/decision", "allow".to_owned());
        let reason = ("authorization.k8s.io/reason", reason.unwrap_or_default().to_owned());
        Self {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: "Metadata",
            audit_id,
            stage: Stage::ResponseStarted,
            request_uri: uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            verb: info.verb.to_string(),
            user,
            source_ips: source_ips(headers, peer),
            user_agent: agent(headers),
            object_ref: ObjectRef {
                resource: info.resource.clone(),
                namespace: info.namespace.clone(),
                name: info.name.clone(),
                api_group: info.group.clone(),
                api_version: info.version.clone(),
            },
            response_status: ResponseStatus::default(),
            request_received_timestamp: timestamp(received),
            stage_timestamp: String::new(),
            annotations: BTreeMap::from([decision, reason]),
        }
    }

    /// What is answered: a code, and of an error its Status.
    pub(crate) fn answered(&mut self, code: u16, status: Option<&Status>) {
        self.response_status = match status {
            Some(Status { reason, message, .. }) => ResponseStatus {
                status: "Failure",
                message: message.clone(),
                reason: reason.clone(),
                code,
                ..ResponseStatus::default()
            },
            None => ResponseStatus { code, ..ResponseStatus::default() },
        };
    }

    /// Comes to a stage now.
    pub(crate) fn reach(&mut self, stage: Stage) {
        self.stage = stage;
        self.stage_timestamp = timestamp(SystemTime::now());
    }

    /// As one line of JSON, without its end.
    pub(crate) fn line(&self) -> Bytes {
        serde_json::to_vec(self).expect("text in structs is always JSON").into()
    }
}

fn shared<S: Serializer>(identity: &Arc<Identity>, serializer: S) -> Result<S::Ok, S::Error> {
    identity.as_ref().serialize(serializer)
}

/// The way that a request says it has come, and where it came from at last, which cannot be made up.
fn source_ips(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<IpAddr> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let forwarded = text("x-forwarded-for").split(',').filter_map(|part| part.trim().parse().ok());
    let mut ips: Vec<IpAddr> = forwarded.collect();
    let real = text("x-real-ip").parse().ok().filter(|ip| !ips.contains(ip));
    ips.extend(real);
    let peer = peer.map(|peer| peer.to_canonical()).filter(|peer| ips.last() != Some(peer));
    ips.extend(peer);
    ips
}

fn agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    let agent = agent.unwrap_or_default();
    match agent.char_indices().nth(MAX_AGENT) {
        Some((end, _)) => format!("{}{TRUNCATED}", &agent[..end]),
        None => agent.into_owned(),
    }
}

/// RFC 3339 in microseconds.
pub(crate) fn timestamp(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (seconds, micros) = (since.as_secs(), since.subsec_micros());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month and day of a day since 1970, by 400-year eras that begin in March, so that the leap day is a year's last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (month_of_year, day_of_month) = ((month + 2) % 12 + 1, day - (153 * month + 2) / 5 + 1);
    (era * 400 + year + u64::from(month_of_year <= 2), month_of_year, day_of_month)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use weir_core::query::Query;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds: u64, micros: u32| timestamp(UNIX_EPOCH + Duration::new(seconds, micros * 1_000));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_827_696, 7), "2000-02-29T12:34:56.000007Z");
        assert_eq!(at(1_709_164_800, 0), "2024-02-29T00:00:00.000000Z");
        assert_eq!(at(1_735_689_599, 999_999), "2024-12-31T23:59:59.999999Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000000Z");
    }

    #[test]
    fn the_last_address_is_the_one_that_cannot_be_made_up() {
        let peer: Option<IpAddr> = Some("10.0.0.9".parse().unwrap());
        let ips = |pairs: &[_]| {
            let ips = source_ips(&headers(pairs), peer);
            ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ips(&[]), "10.0.0.9");
        let way = [("x-forwarded-for", "1.2.3.4, nonsense,10.0.0.9"), ("x-real-ip", "1.2.3.4")];
        assert_eq!(ips(&way), "1.2.3.4 10.0.0.9");
        assert_eq!(ips(&[("x-real-ip", "5.6.7.8")]), "5.6.7.8 10.0.0.9");
    }

    #[test]
    fn an_event_has_the_fields_of_upstreams_in_their_order() {
        let query = "limit=1&labelSelector=a";
        let info =
            RequestInfo::parse("GET", "/api/v1/namespaces/harbor/secrets", &Query::parse(query)).unwrap();
        let uri = format!("https://weir/api/v1/namespaces/harbor/secrets?{query}").parse().unwrap();
        let user = Identity {
            username: "bob".to_owned(),
            uid: "2".to_owned(),
            groups: vec!["devs".to_owned(), "system:authenticated".to_owned()],
            ..Identity::default()
        };
        let headers = headers(&[("user-agent", "kubectl/v1"), ("authorization", "Bearer canary")]);
        let mut event = Event::new(
            (&info, &uri, &headers),
            (Arc::new(user), Some("RBAC: allowed")),
            (Some("127.0.0.1".parse().unwrap()), UNIX_EPOCH),
            "id-1".to_owned(),
        );
        event.answered(200, None);
        event.stage = Stage::ResponseComplete;
        event.stage_timestamp = timestamp(UNIX_EPOCH + Duration::from_micros(5));
        let expected = concat!(
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id-1","stage":"ResponseComplete","#,
            r#""requestURI":"/api/v1/namespaces/harbor/secrets?limit=1&labelSelector=a","verb":"list","#,
            r#""user":{"username":"bob","uid":"2","groups":["devs","system:authenticated"]},"#,
            r#""sourceIPs":["127.0.0.1"],"userAgent":"kubectl/v1","#,
            r#""objectRef":{"resource":"secrets","namespace":"harbor","apiVersion":"v1"},"#,
            r#""responseStatus":{"metadata":{},"code":200},"#,
            r#""requestReceivedTimestamp":"1970-01-01T00:00:00.000000Z","stageTimestamp":"1970-01-01T00:00:00.000005Z","#,
            r#""annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed"}}"#,
        );
        assert_eq!(event.line(), expected.as_bytes());
        event.answered(410, Some(&Status::list_too_old()));
        let line = String::from_utf8(event.line().to_vec()).unwrap();
        assert!(line.contains(r#""responseStatus":{"metadata":{},"status":"Failure","message":""#), "{line}");
        assert!(line.contains(r#","reason":"Expired","code":410}"#), "{line}");
    }
}
