//! Answers to gets of one object. A miss is never answered here: an object that the mirror lacks may have been created a
//! moment ago, and a 404 that is not true makes controllers delete what lives.

use std::sync::Arc;

use weir_core::options::{Freshness, GetIntent};
use weir_core::{Object, ObjectKey};

use crate::mirror::Mirror;
use crate::passthrough::Passed;

/// The object, or why upstream has to answer.
pub async fn get(mirror: &Mirror, key: &ObjectKey, intent: GetIntent) -> Result<Arc<Object>, Passed> {
    let newest = mirror.newest_or_behind().await.ok_or(Passed::Loading)?;
    match intent {
        GetIntent::Refused => return Err(Passed::NotARead),
        GetIntent::Point(Freshness::Consistent) => return Err(Passed::Freshness),
        GetIntent::Point(Freshness::NotOlderThan(wanted)) if wanted > newest => {
            return Err(Passed::NotReached);
        }
        GetIntent::Point(Freshness::NotOlderThan(_) | Freshness::Any) => {}
    }
    mirror.shards().get(key, newest).await.ok().flatten().ok_or(Passed::NotFound)
}
