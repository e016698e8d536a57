//! That a feed will not carry a mirror, as a status between processes: the message `Unmirrored` of the wire in its details.
//! A status without it says nothing about the resource, and the subscriber tries again.

use tonic::{Code, Status};
use weir_core::GroupVersionResource;
use weir_core::object::ObjectSchema;
use weir_proto::session::{FromNode, Unmirrored};
use weir_proto::{Encoded, wire};

/// The status that carries the reason.
pub(crate) fn write(mirror: &GroupVersionResource, reason: Unmirrored) -> Status {
    let message = FromNode::Unmirrored { mirror: mirror.clone(), reason };
    match Encoded::once(&wire::FromNode::from(&message)) {
        Encoded::Bytes(details) => Status::with_details(Code::NotFound, "not mirrored", details),
        Encoded::Message(_) => Status::not_found("not mirrored"),
    }
}

/// The reason in a status, if it carries one.
pub(crate) fn read(status: &Status) -> Option<Unmirrored> {
    if status.code() != Code::NotFound {
        return None;
    }
    let message = Encoded::Bytes(status.details().to_vec().into()).open().ok()?;
    match FromNode::read(message, &ObjectSchema::bare()).ok()? {
        FromNode::Unmirrored { mirror: _, reason } => Some(reason),
        FromNode::Welcome { .. } | FromNode::Attached(_) | FromNode::Learned(..) | FromNode::Flush(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_that_was_written_is_read() {
        let pods = GroupVersionResource::new("", "v1", "pods");
        for reason in [Unmirrored::NotServed, Unmirrored::NotWatchable, Unmirrored::Aggregated] {
            assert_eq!(read(&write(&pods, reason)), Some(reason));
        }
        assert_eq!(read(&Status::not_found("something else")), None);
        assert_eq!(read(&Status::unavailable("stopping")), None);
    }
}
