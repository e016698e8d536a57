//! What is known of a mirror. Of a built-in resource the selectable fields don't travel, since every process has its own
//! table of them; of a custom one they do.

use std::sync::Arc;

use bytes::Bytes;
use weir_core::mirror::{BookmarkTemplate, JsonForm, MirrorFacts, MirrorSpec};
use weir_core::object::ObjectSchema;
use weir_core::selector::{CustomFields, FieldTable};

use crate::error::ProtocolError;
use crate::parts::{mirror, required, text};
use crate::wire;

impl From<&MirrorSpec> for wire::MirrorSpec {
    fn from(spec: &MirrorSpec) -> Self {
        use wire::mirror_spec::Form;
        let MirrorSpec { resource, kind, is_namespaced, form, schema } = spec;
        let form = match form {
            JsonForm::BuiltIn => Form::BuiltIn(wire::Nothing {}),
            JsonForm::Custom => {
                let fields = schema.table().fields().iter();
                Form::Custom(wire::CustomForm {
                    json_paths: fields.map(|field| format!(".{}", field.label)).collect(),
                })
            }
        };
        Self {
            mirror: Some(resource.into()),
            kind: kind.to_string(),
            is_namespaced: *is_namespaced,
            form: Some(form),
        }
    }
}

impl TryFrom<wire::MirrorSpec> for MirrorSpec {
    type Error = ProtocolError;

    fn try_from(spec: wire::MirrorSpec) -> Result<Self, ProtocolError> {
        use wire::mirror_spec::Form;
        let wire::MirrorSpec { mirror: name, kind, is_namespaced, form } = spec;
        let resource = mirror(name)?;
        let (form, custom) = match required(form, "spec.form")? {
            Form::BuiltIn(wire::Nothing {}) => (JsonForm::BuiltIn, None),
            Form::Custom(wire::CustomForm { json_paths }) => {
                (JsonForm::Custom, Some(CustomFields { is_namespaced, json_paths }))
            }
        };
        let table =
            FieldTable::of(&resource, custom.as_ref()).ok_or(ProtocolError::Invalid("spec.mirror"))?;
        let schema = ObjectSchema::new(table).map_err(|_| ProtocolError::Invalid("spec.json_paths"))?;
        Ok(Self { resource, kind: text(&kind, "spec.kind")?, is_namespaced, form, schema: Arc::new(schema) })
    }
}

impl From<&MirrorFacts> for wire::MirrorFacts {
    fn from(facts: &MirrorFacts) -> Self {
        let MirrorFacts { list_kind, warnings, bookmark } = facts;
        let cut = |(head, tail)| Some(wire::Cut { head, tail });
        Self {
            list_kind: list_kind.to_string(),
            warnings: warnings.iter().map(ToString::to_string).collect(),
            bookmark: cut(bookmark.plain()),
            end_bookmark: cut(bookmark.end()),
        }
    }
}

impl TryFrom<wire::MirrorFacts> for MirrorFacts {
    type Error = ProtocolError;

    fn try_from(facts: wire::MirrorFacts) -> Result<Self, ProtocolError> {
        let wire::MirrorFacts { list_kind, warnings, bookmark, end_bookmark } = facts;
        let plain = pieces(bookmark, "facts.bookmark")?;
        let end = pieces(end_bookmark, "facts.end_bookmark")?;
        Ok(Self {
            list_kind: text(&list_kind, "facts.list_kind")?,
            warnings: warnings.into_iter().map(Arc::from).collect(),
            bookmark: BookmarkTemplate::from_pieces(plain, end),
        })
    }
}

/// Both pieces, copied so that they don't pin the message.
fn pieces(cut: Option<wire::Cut>, field: &'static str) -> Result<(Bytes, Bytes), ProtocolError> {
    let wire::Cut { head, tail } = required(cut, field)?;
    if head.is_empty() || tail.is_empty() {
        return Err(ProtocolError::Missing(field));
    }
    Ok((Bytes::copy_from_slice(&head), Bytes::copy_from_slice(&tail)))
}
