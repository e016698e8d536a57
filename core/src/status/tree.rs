//! A Status as the tree that its text encodings write: keys in the order of JSON, nothing in it that is left out.

use super::{Cause, Details, Status};

/// A value of the tree.
pub(super) enum Node<'a> {
    Text(&'a str),
    Number(u32),
    List(Vec<Node<'a>>),
    Map(Vec<(&'static str, Node<'a>)>),
}

pub(super) fn of_status(status: &Status) -> Node<'_> {
    let Status { code, reason, message, details, continue_token } = status;
    let metadata = map([text("continue", continue_token.as_deref().unwrap_or_default())]);
    map([
        text("kind", "Status"),
        text("apiVersion", "v1"),
        Some(("metadata", metadata)),
        text("status", "Failure"),
        text("message", message),
        text("reason", reason),
        details.as_ref().map(|details| ("details", of_details(details))),
        Some(("code", Node::Number((*code).into()))),
    ])
}

fn of_details(details: &Details) -> Node<'_> {
    let Details { name, group, kind, uid, causes, retry_after_seconds } = details;
    map([
        text("name", name),
        text("group", group),
        text("kind", kind),
        text("uid", uid),
        (!causes.is_empty()).then(|| ("causes", Node::List(causes.iter().map(of_cause).collect()))),
        (*retry_after_seconds > 0).then_some(("retryAfterSeconds", Node::Number(*retry_after_seconds))),
    ])
}

fn of_cause(cause: &Cause) -> Node<'_> {
    let Cause { reason, message, field } = cause;
    map([text("reason", reason), text("message", message), text("field", field)])
}

fn map<'a, const N: usize>(pairs: [Option<(&'static str, Node<'a>)>; N]) -> Node<'a> {
    Node::Map(pairs.into_iter().flatten().collect())
}

fn text<'a>(key: &'static str, value: &'a str) -> Option<(&'static str, Node<'a>)> {
    (!value.is_empty()).then_some((key, Node::Text(value)))
}
