//! What a node holds, read as a proxy would read it.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::interest::Interest;
use weir_core::message::{SnapshotRequest, SnapshotStart};
use weir_core::{Object, ResourceVersion};
use weir_shard_node::host::Hosted;

/// Everything that a node holds, at a revision or now.
pub(crate) fn objects(mirror: &Hosted, at: Option<ResourceVersion>) -> Vec<Arc<Object>> {
    let (history, window) = mirror.cell.standing().expect("content");
    let mut request = SnapshotRequest {
        history,
        interest: Arc::new(Interest::everything()),
        slots: mirror.cell.slots(),
        at: at.unwrap_or(window.frontier),
        from: None,
        max_objects: usize::MAX,
    };
    let mut objects = Vec::new();
    loop {
        let chunk = mirror.cell.snapshot(&request).expect("inside the window");
        objects.extend(chunk.objects);
        let Some(next) = chunk.next else { return objects };
        request.from = Some(SnapshotStart::Behind(next));
    }
}

/// The same as keys and revisions.
pub(crate) fn content(mirror: &Hosted, at: Option<ResourceVersion>) -> BTreeMap<String, u64> {
    let objects = objects(mirror, at);
    objects.iter().map(|object| (object.key().to_string(), object.rv().get())).collect()
}
