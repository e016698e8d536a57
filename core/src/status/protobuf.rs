//! Protobuf as upstream writes it: strings and numbers that are no pointers in Go are always there, even when empty.

use super::{Cause, Details, Status};

/// Before every message that stands alone.
const MAGIC: &[u8] = b"k8s\0";

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

/// The Status in its envelope.
pub(super) fn of_status(status: &Status) -> Vec<u8> {
    let Status { code, reason, message, details, continue_token } = status;
    let type_meta = Message::default().text(1, "v1").text(2, "Status");
    let metadata =
        Message::default().text(1, "").text(2, "").text(3, continue_token.as_deref().unwrap_or(""));
    let mut body =
        Message::default().nested(1, &metadata).text(2, "Failure").text(3, message).text(4, reason);
    if let Some(details) = details {
        body = body.nested(5, &of_details(details));
    }
    let body = body.number(6, (*code).into());
    let unknown = Message::default().nested(1, &type_meta).nested(2, &body).text(3, "").text(4, "");
    [MAGIC, &unknown.0].concat()
}

/// A frame of a watch stream: the length, then the event around an object in its envelope.
pub(super) fn watch_frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let raw = Message::default().bytes(1, object);
    let event = Message::default().text(1, kind).nested(2, &raw).0;
    let length = u32::try_from(event.len()).expect("a status is far below 4 GiB");
    [&length.to_be_bytes()[..], &event].concat()
}

fn of_details(details: &Details) -> Message {
    let Details { name, group, kind, uid, causes, retry_after_seconds } = details;
    let message = Message::default().text(1, name).text(2, group).text(3, kind);
    let message = causes.iter().fold(message, |message, cause| message.nested(4, &of_cause(cause)));
    message.number(5, (*retry_after_seconds).into()).text(6, uid)
}

fn of_cause(cause: &Cause) -> Message {
    let Cause { reason, message, field } = cause;
    Message::default().text(1, reason).text(2, message).text(3, field)
}

// === impl Message ===

impl Message {
    fn text(self, field: u8, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn nested(self, field: u8, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn bytes(mut self, field: u8, bytes: &[u8]) -> Self {
        self.0.push(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn number(mut self, field: u8, number: u64) -> Self {
        self.0.push(field << 3);
        self.varint(number);
        self
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}
