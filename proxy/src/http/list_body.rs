//! The bytes of lists and single objects: upstream's envelope around the stored bytes. Built-in lists name their revision
//! before the items, custom ones behind them; both stream.

use bytes::Bytes;
use futures_util::stream;
use weir_core::message::Unanswered;
use weir_core::mirror::{JsonForm, MirrorFacts, MirrorSpec};
use weir_core::{Object, ResourceVersion};
use weir_upstream::BoxError;

use super::body::{ProxyBody, Segments};
use super::pretty::Indenter;
use crate::shards::snapshot::Snapshot;

use std::sync::Arc;

/// Objects of one piece of a body.
const PIECE: usize = 32;

/// What a list says of itself.
#[derive(Clone, Debug)]
pub struct ListMeta {
    /// The revision.
    pub at: ResourceVersion,
    /// The token of the next page; empty at the end.
    pub continue_token: String,
    /// How many objects are left, where upstream says it.
    pub remaining: Option<usize>,
    /// The shard selector that was applied, in its canonical form.
    pub shard: Option<String>,
}

/// Where the items of a list come from.
#[derive(Debug)]
pub enum Items {
    /// A page, read already, because what follows it stands before it.
    Page(Vec<Arc<Object>>),
    /// The rest of a snapshot, read while it is sent.
    Rest(Snapshot),
}

/// A body that is being made.
struct Making {
    items: Items,
    head: Option<Segments>,
    tail: Option<Bytes>,
    has_items: bool,
    indenter: Option<Indenter>,
}

/// The body of a list.
pub fn list(
    (spec, facts): (&MirrorSpec, &MirrorFacts),
    meta: &ListMeta,
    items: Items,
    is_pretty: bool,
) -> ProxyBody {
    let (kind, api_version, meta) = (&facts.list_kind, spec.resource.api_version(), meta.json(spec.form));
    let (head, tail) = match spec.form {
        JsonForm::BuiltIn => (
            format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{meta},"items":["#),
            "]}\n".to_owned(),
        ),
        JsonForm::Custom => (
            format!(r#"{{"apiVersion":"{api_version}","items":["#),
            format!(r#"],"kind":"{kind}","metadata":{meta}}}"#) + "\n",
        ),
    };
    let making = Making {
        items,
        head: Some(Bytes::from(head).into()),
        tail: Some(tail.into()),
        has_items: false,
        indenter: is_pretty.then(Indenter::default),
    };
    ProxyBody::stream(stream::try_unfold(making, |mut making| async move {
        let piece = making.next().await.map_err(BoxError::from)?;
        Ok::<_, BoxError>(piece.map(|piece| (piece, making)))
    }))
}

/// The body of one object.
pub fn object(spec: &MirrorSpec, object: &Object, is_pretty: bool) -> ProxyBody {
    let mut segments = Segments::default();
    match spec.form {
        JsonForm::BuiltIn => {
            let type_meta =
                format!(r#"{{"kind":"{}","apiVersion":"{}","#, spec.kind, spec.resource.api_version());
            segments.push(type_meta.into());
            segments.push(object.bytes().slice(1..));
        }
        JsonForm::Custom => segments.push(object.bytes().clone()),
    }
    segments.push(Bytes::from_static(b"\n"));
    if is_pretty {
        return ProxyBody::full(Indenter::default().indent(&segments));
    }
    ProxyBody::stream(stream::iter([Ok(segments)]))
}

// === impl Making ===

impl Making {
    /// The next piece; `None` behind the last.
    async fn next(&mut self) -> Result<Option<Segments>, Unanswered> {
        let mut piece = self.head.take().unwrap_or_default();
        let objects = match &mut self.items {
            Items::Page(objects) => {
                let rest = objects.split_off(objects.len().min(PIECE));
                std::mem::replace(objects, rest)
            }
            Items::Rest(snapshot) => snapshot.next(PIECE).await?,
        };
        if objects.is_empty() {
            let Some(tail) = self.tail.take() else { return Ok(None) };
            piece.push(tail);
        }
        for object in objects {
            if self.has_items {
                piece.push(Bytes::from_static(b","));
            }
            self.has_items = true;
            piece.push(object.bytes().clone());
        }
        Ok(Some(match &mut self.indenter {
            Some(indenter) => indenter.indent(&piece).into(),
            None => piece,
        }))
    }
}

// === impl ListMeta ===

impl ListMeta {
    /// `metadata` in upstream's order of keys.
    fn json(&self, form: JsonForm) -> String {
        let version = format!(r#""resourceVersion":"{}""#, self.at);
        let token = format!(r#""continue":"{}""#, self.continue_token);
        let remaining = self.remaining.map(|count| format!(r#""remainingItemCount":{count}"#));
        let shard = self.shard.as_ref().map(|selector| format!(r#""shardInfo":{{"selector":"{selector}"}}"#));
        let parts: Vec<String> = match form {
            JsonForm::BuiltIn => {
                let token = (!self.continue_token.is_empty()).then_some(token);
                [Some(version), token, remaining, shard].into_iter().flatten().collect()
            }
            JsonForm::Custom => {
                [Some(token), remaining, Some(version), shard].into_iter().flatten().collect()
            }
        };
        format!("{{{}}}", parts.join(","))
    }
}
