//! Who callers are, as upstream says it of their credentials. Nothing is allowed or refused by it: it tells whose rights may
//! have changed, whose refusals are not worth remembering, and whose name stands in the audit log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryFutureExt;
use futures_util::future::BoxFuture;
use moka::future::Cache;
use serde::{Deserialize, Serialize};

use super::caller::CallerKey;

/// Callers whose names are remembered. 10,000 × ~600 bytes ≈ 6 MB.
const IDENTITIES: u64 = 10_000;
/// How long a name is remembered: what a token stands for seldom changes, and is never what decides.
const REMEMBERED: Duration = Duration::from_secs(60);
/// The group of kubelets, whose rights come and go with the pods that are bound to them.
const NODES: &str = "system:nodes";

/// Who somebody is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Identity {
    /// The name.
    pub username: String,
    /// The uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What else their authenticator says.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Upstream did not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unsaid;

/// The callers whose names are known. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Identities(Cache<CallerKey, Option<Arc<Identity>>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    user_info: Identity,
}

// === impl Identity ===

impl Identity {
    /// Reads a SelfSubjectReview.
    pub(super) fn of_review(body: &[u8]) -> Option<Self> {
        let Answer { status: Status { user_info } } = serde_json::from_slice(body).ok()?;
        Some(user_info)
    }

    /// Whether it is a kubelet.
    pub(super) fn is_node(&self) -> bool {
        self.groups.iter().any(|group| group == NODES)
    }
}

// === impl Identities ===

impl Identities {
    /// Nobody is known.
    pub(super) fn new() -> Self {
        Self(Cache::builder().max_capacity(IDENTITIES).time_to_live(REMEMBERED).build())
    }

    /// Who a caller is; `None` for a credential that upstream does not know or lets say nothing. Many who ask for the same
    /// one are one question.
    pub(super) async fn who<'a>(
        &self,
        caller: CallerKey,
        ask: impl FnOnce() -> BoxFuture<'a, Result<Option<Identity>, Unsaid>> + Send,
    ) -> Option<Arc<Identity>> {
        if let Some(known) = self.0.get(&caller).await {
            return known;
        }
        let asked = ask().map_ok(|identity| identity.map(Arc::new));
        // Rare, and large: kept out of the future of every request.
        Box::pin(self.0.try_get_with(caller, asked)).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_review_says_who_somebody_is() {
        let body = br#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"status":
            {"userInfo":{"username":"system:node:n1","uid":"7","groups":["system:nodes"],"extra":{"k":["v"]}}}}"#;
        let identity = Identity::of_review(body).unwrap();
        assert!(identity.is_node() && identity.username == "system:node:n1" && identity.extra["k"] == ["v"]);
        assert_eq!(Identity::of_review(br#"{"kind":"Status"}"#), None);
    }

    #[tokio::test]
    async fn who_somebody_is_is_asked_once_and_no_answer_is_not_remembered() {
        let (identities, asked) = (Identities::new(), AtomicUsize::new(0));
        let who = async |answer: Result<Option<Identity>, Unsaid>| {
            let ask = async {
                asked.fetch_add(1, Ordering::Relaxed);
                answer
            };
            identities.who(CallerKey([1, 2]), || ask.boxed()).await
        };
        assert_eq!(who(Err(Unsaid)).await, None);
        let bob = Identity { username: "bob".to_owned(), ..Identity::default() };
        for _ in 0..3 {
            assert_eq!(who(Ok(Some(bob.clone()))).await.as_deref(), Some(&bob));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
