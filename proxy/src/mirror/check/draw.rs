//! What is compared when nothing gives a reason: the whole collection where it is small, and otherwise a namespace, drawn by
//! drawing an object. So large namespaces are drawn more often, like the events that could be lost of them.
//!
//! A large collection without namespaces has no part that upstream would list by itself, and is not compared.

use std::sync::Arc;

use weir_core::Object;
use weir_core::hash::HashRange;
use weir_core::interest::{Interest, Scope};
use weir_core::mirror::JsonForm;
use weir_core::selector::LabelSelector;
use weir_core::shard_selector::ShardSelector;
use weir_shard_node::feed::scope::Detail;

use super::{SelfCheck, Suspicion};

/// How many namespaces are drawn until one is small enough.
const DRAWS: usize = 4;
/// How many objects a range of hashes is to have from which one is drawn: it is empty once in 3,000 times.
const IN_RANGE: u128 = 8;

// === impl SelfCheck ===

impl SelfCheck {
    /// Asks upstream for a part of the collection. Built-in kinds change their bytes with their resourceVersion only; of custom ones
    /// digests are compared too where there is a part that is small enough.
    pub(super) async fn ask(&self) -> Option<Suspicion> {
        let details: &[Detail] = match self.mirror.spec().form {
            JsonForm::BuiltIn => &[Detail::Metadata],
            JsonForm::Custom => &[Detail::Bytes, Detail::Metadata],
        };
        let history = self.mirror.shards().history()?;
        for detail in details {
            for _ in 0..DRAWS {
                let Some(namespace) = self.draw(detail.max_objects()).await else { break };
                let scope = Scope { namespace, name: None };
                if let Some(held) = self.mirror.feed().scope(scope.clone(), *detail).await {
                    return Some(Suspicion { history, scope, held });
                }
            }
        }
        None
    }

    /// No namespace where all of the collection has no more than `max_objects`. `None` where nothing can be drawn.
    async fn draw(&self, max_objects: usize) -> Option<Option<Arc<str>>> {
        let (shards, at) = (self.mirror.shards(), self.mirror.newest()?);
        let count = shards.count(&Scope::default(), (at, None), usize::MAX).await.ok()?;
        if count <= max_objects {
            return Some(None);
        }
        if !self.mirror.spec().is_namespaced {
            return None;
        }
        let some = Interest::new(Scope::default(), LabelSelector::everything(), Vec::new(), some_of(count));
        let mut snapshot = shards.snapshot(&Arc::new(some), at, None).await.ok()?;
        let drawn: Vec<Arc<Object>> = snapshot.next(1).await.ok()?;
        Some(Some(drawn.first()?.key().namespace().into()))
    }
}

/// A range of hashes that holds a few of so many objects.
fn some_of(count: usize) -> Option<ShardSelector> {
    let width = (HashRange::END / count.max(1) as u128 * IN_RANGE).min(HashRange::END);
    let start = rand::random_range(0..=HashRange::END - width);
    let end = start + width;
    ShardSelector::parse(&format!("shardRange(object.metadata.uid, '0x{start:x}', '0x{end:x}')")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_a_few_of_the_objects_wherever_it_lies() {
        for count in [1, 7, 8, 9, 1_001, 5_000_000] {
            for _ in 0..100 {
                let selector = some_of(count).unwrap();
                let [range] = selector.ranges() else { panic!("one range") };
                let width = range.end() - u128::from(range.start());
                let share = HashRange::END / width;
                assert_eq!(share, (count as u128 / IN_RANGE).max(1), "{count}: {selector}");
            }
        }
    }
}
