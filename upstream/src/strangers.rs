//! Who is a stranger: a caller without a credential, or with one that upstream has just refused. After its answer to a
//! stranger kube-apiserver ends the whole HTTP/2 connection, so strangers get connections of their own. A mistake here is
//! harmless: it decides which connection a request takes and nothing else.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::time::Instant;

/// How long a refusal counts. A credential that becomes valid meanwhile is no stranger from its first good answer on.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// 4,096 × about 32 bytes = 128 KiB. The oldest goes first; then its next refusal may end a connection of others, whose
/// requests are sent again.
const MOST_REFUSED: usize = 4_096;

/// On whose connections a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    /// Callers with a credential that may be good.
    Known,
    Strangers,
}

/// The credentials that upstream has refused, by keyed hash.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    hasher: RandomState,
    at: Mutex<HashMap<u64, Instant>>,
}

// === impl Refused ===

impl Refused {
    pub(crate) fn party(&self, headers: &HeaderMap) -> Party {
        let Some(credential) = headers.get(header::AUTHORIZATION) else { return Party::Strangers };
        let at = self.lock().get(&self.hash(credential)).copied();
        if at.is_some_and(|at| at.elapsed() < REFUSED_FOR) { Party::Strangers } else { Party::Known }
    }

    /// Learns from an answer.
    pub(crate) fn note(&self, headers: &HeaderMap, status: StatusCode) {
        let Some(credential) = headers.get(header::AUTHORIZATION) else { return };
        let hash = self.hash(credential);
        let mut at = self.lock();
        if status != StatusCode::UNAUTHORIZED {
            at.remove(&hash);
            return;
        }
        at.insert(hash, Instant::now());
        if at.len() <= MOST_REFUSED {
            return;
        }
        let oldest = at.iter().min_by_key(|(_, at)| **at).map(|(hash, _)| *hash);
        if let Some(oldest) = oldest {
            at.remove(&oldest);
        }
    }

    fn hash(&self, credential: &HeaderValue) -> u64 {
        self.hasher.hash_one(credential.as_bytes())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(token: impl std::fmt::Display) -> HeaderMap {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        HeaderMap::from_iter([(header::AUTHORIZATION, value)])
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_credential_is_a_strangers_for_a_minute_or_until_it_is_good() {
        let refused = Refused::default();
        assert_eq!(refused.party(&HeaderMap::new()), Party::Strangers);
        let one = bearer("one");
        assert_eq!(refused.party(&one), Party::Known);
        refused.note(&one, StatusCode::UNAUTHORIZED);
        assert_eq!((refused.party(&one), refused.party(&bearer("two"))), (Party::Strangers, Party::Known));
        refused.note(&one, StatusCode::FORBIDDEN);
        assert_eq!(refused.party(&one), Party::Known, "403 is for those who are known");
        refused.note(&one, StatusCode::UNAUTHORIZED);
        tokio::time::advance(REFUSED_FOR).await;
        assert_eq!(refused.party(&one), Party::Known);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_refusal_goes_first() {
        let refused = Refused::default();
        for number in 0..=MOST_REFUSED {
            refused.note(&bearer(number), StatusCode::UNAUTHORIZED);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(refused.lock().len(), MOST_REFUSED);
        assert_eq!(refused.party(&bearer(0)), Party::Known);
        assert_eq!(refused.party(&bearer(1)), Party::Strangers);
    }
}
