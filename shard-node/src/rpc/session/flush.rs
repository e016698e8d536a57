//! What the nodes have said, in messages of bounded size and in order. A statement that does not fit is cut behind an event:
//! each part holds all events of its interval, so a receiver that gets only the first has a shorter truth and not a false
//! one.
//!
//! Contents of objects are not copied here, and nothing is encoded: that happens once, into the connection's buffer. Flushes
//! are not shared between sessions: a statement begins where the last one on its own session ended, so under load no two are
//! the same, and without load there is one of some 30 bytes now and then.

use weir_core::message::{Delivery, FromNode as NodeSaid};
use weir_core::statement::Statement;
use weir_proto::limits::BATCH_BYTES;
use weir_proto::session::{MirrorNumber, Said};
use weir_proto::wire;

/// What a part or a tag takes besides objects, roughly.
const PART_BYTES: usize = 40;
const TAG_BYTES: usize = 10;

/// Flushes that are being filled.
#[derive(Debug, Default)]
struct Messages {
    done: Vec<wire::FromNode>,
    said: Vec<wire::Said>,
    bytes: usize,
}

/// One message at least: a flush of nothing is a sign of life.
pub(super) fn messages(parts: &[(MirrorNumber, Said)]) -> Vec<wire::FromNode> {
    let mut messages = Messages::default();
    for (mirror, said) in parts {
        match said {
            Said::Node(NodeSaid::Said(statement)) => messages.put_statement(*mirror, statement),
            Said::Node(_) | Said::Floor(_) => messages.put(*mirror, said.into()),
        }
    }
    messages.finish()
}

// === impl Messages ===

impl Messages {
    fn put(&mut self, mirror: MirrorNumber, what: wire::said::What) {
        self.close_if_full();
        self.said.push(wire::Said { mirror: mirror.get(), what: Some(what) });
        self.bytes += PART_BYTES;
    }

    fn put_statement(&mut self, mirror: MirrorNumber, statement: &Statement<Delivery>) {
        let part = |after: u64, to: u64, events: Vec<wire::Delivery>| {
            wire::said::What::Statement(wire::SessionStatement {
                source: statement.source().0,
                after,
                to,
                events,
            })
        };
        let mut after = statement.after().get();
        let mut events = Vec::new();
        for delivery in statement.events() {
            if self.bytes >= BATCH_BYTES
                && let Some(wire::Delivery { rv, .. }) = events.last()
            {
                let to = *rv;
                self.said.push(wire::Said {
                    mirror: mirror.get(),
                    what: Some(part(after, to, std::mem::take(&mut events))),
                });
                after = to;
            }
            self.close_if_full();
            self.bytes += size(delivery);
            events.push(delivery.into());
        }
        self.said
            .push(wire::Said { mirror: mirror.get(), what: Some(part(after, statement.to().get(), events)) });
        self.bytes += PART_BYTES;
    }

    fn close_if_full(&mut self) {
        if self.bytes >= BATCH_BYTES {
            self.close();
        }
    }

    fn close(&mut self) {
        let said = std::mem::take(&mut self.said);
        self.bytes = 0;
        let flush = wire::Flush { said };
        self.done.push(wire::FromNode { message: Some(wire::from_node::Message::Flush(flush)) });
    }

    fn finish(mut self) -> Vec<wire::FromNode> {
        if self.done.is_empty() || !self.said.is_empty() {
            self.close();
        }
        self.done
    }
}

fn size(delivery: &Delivery) -> usize {
    let Delivery { rv: _, present, gone, tags } = delivery;
    let objects = present.iter().chain(gone);
    let bytes: usize = objects.map(|object| object.bytes().len() + object.key().as_str().len()).sum();
    bytes + PART_BYTES + tags.len() * TAG_BYTES
}

#[cfg(test)]
mod tests;
