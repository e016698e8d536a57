//! The parts that many messages share: names of mirrors, slots, scopes, objects, statements. A function is named after what
//! it reads; the `&'static str` beside a value is the field that an error names.

use std::sync::Arc;

use weir_core::interest::Scope;
use weir_core::message::{EventKind, SnapshotStart, Unanswered};
use weir_core::object::ObjectSchema;
use weir_core::statement::{Event, SourceId, Statement};
use weir_core::window::Window;
use weir_core::{GroupVersionResource, Object, ObjectKey, ResourceVersion, SlotSet};

use crate::error::ProtocolError;
use crate::wire;

/// Some slots of a mirror: what a statement is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorRange {
    /// The mirror.
    pub mirror: GroupVersionResource,
    /// The slots.
    pub slots: SlotSet,
}

/// The interval of a statement as it stands on the wire.
pub(crate) struct Interval {
    pub(crate) source: u64,
    pub(crate) after: u64,
    pub(crate) to: u64,
}

// === presence ===

pub(crate) fn required<T>(value: Option<T>, field: &'static str) -> Result<T, ProtocolError> {
    value.ok_or(ProtocolError::Missing(field))
}

/// Reads a repeated field; one bad member spoils it.
pub(crate) fn all<W, T>(
    values: Vec<W>,
    read: impl FnMut(W) -> Result<T, ProtocolError>,
) -> Result<Vec<T>, ProtocolError> {
    values.into_iter().map(read).collect()
}

pub(crate) fn text(value: &str, field: &'static str) -> Result<Arc<str>, ProtocolError> {
    if value.is_empty() { Err(ProtocolError::Missing(field)) } else { Ok(value.into()) }
}

pub(crate) fn key(value: &str, field: &'static str) -> Result<ObjectKey, ProtocolError> {
    if value.is_empty() {
        return Err(ProtocolError::Missing(field));
    }
    ObjectKey::parse(value).ok_or(ProtocolError::Invalid(field))
}

pub(crate) fn keys(values: Vec<String>, field: &'static str) -> Result<Vec<ObjectKey>, ProtocolError> {
    all(values, |value| key(&value, field))
}

pub(crate) fn key_texts(keys: &[ObjectKey]) -> Vec<String> {
    keys.iter().map(ObjectKey::to_string).collect()
}

// === mirrors, slots, scopes ===

impl From<&GroupVersionResource> for wire::Mirror {
    fn from(mirror: &GroupVersionResource) -> Self {
        let GroupVersionResource { group, version, resource } = mirror;
        Self {
            group: group.to_string(),
            version: version.to_string(),
            resource: resource.to_string(),
            encoding: wire::Encoding::Json.into(),
        }
    }
}

impl TryFrom<wire::Mirror> for GroupVersionResource {
    type Error = ProtocolError;

    fn try_from(mirror: wire::Mirror) -> Result<Self, ProtocolError> {
        match wire::Encoding::try_from(mirror.encoding) {
            Ok(wire::Encoding::Json) => {}
            Ok(wire::Encoding::Unspecified) => return Err(ProtocolError::Missing("mirror.encoding")),
            Err(_) => return Err(ProtocolError::Invalid("mirror.encoding")),
        }
        Ok(Self {
            group: mirror.group.into(),
            version: text(&mirror.version, "mirror.version")?,
            resource: text(&mirror.resource, "mirror.resource")?,
        })
    }
}

pub(crate) fn mirror(mirror: Option<wire::Mirror>) -> Result<GroupVersionResource, ProtocolError> {
    required(mirror, "mirror")?.try_into()
}

pub(crate) fn slots(slots: Option<wire::Slots>) -> Result<SlotSet, ProtocolError> {
    let bits = required(slots, "slots")?.bits;
    let bits = <&[u8; SlotSet::BYTES]>::try_from(&*bits).map_err(|_| ProtocolError::Invalid("slots.bits"))?;
    Ok(SlotSet::from_bits(bits))
}

impl From<&SlotSet> for wire::Slots {
    fn from(slots: &SlotSet) -> Self {
        Self { bits: slots.to_bits().to_vec().into() }
    }
}

impl From<&Scope> for wire::Scope {
    fn from(scope: &Scope) -> Self {
        let Scope { namespace, name } = scope;
        Self { namespace: namespace.as_deref().map(str::to_owned), name: name.as_deref().map(str::to_owned) }
    }
}

impl TryFrom<wire::Scope> for Scope {
    type Error = ProtocolError;

    fn try_from(scope: wire::Scope) -> Result<Self, ProtocolError> {
        let part = |value: Option<String>, field| match value {
            Some(value) if value.is_empty() => Err(ProtocolError::Invalid(field)),
            value => Ok(value.map(Arc::from)),
        };
        Ok(Self {
            namespace: part(scope.namespace, "scope.namespace")?,
            name: part(scope.name, "scope.name")?,
        })
    }
}

impl From<&SnapshotStart> for wire::Start {
    fn from(start: &SnapshotStart) -> Self {
        use wire::start::At;
        let at = match start {
            SnapshotStart::At(text) => At::From(text.to_string()),
            SnapshotStart::Behind(key) => At::After(key.to_string()),
        };
        Self { at: Some(at) }
    }
}

impl TryFrom<wire::Start> for SnapshotStart {
    type Error = ProtocolError;

    fn try_from(start: wire::Start) -> Result<Self, ProtocolError> {
        use wire::start::At;
        Ok(match required(start.at, "start.at")? {
            At::From(text) => Self::At(text.into()),
            At::After(after) => Self::Behind(key(&after, "start.after")?),
        })
    }
}

// === objects and statements ===

impl From<&Object> for wire::Object {
    fn from(object: &Object) -> Self {
        Self { key: object.key().to_string(), rv: object.rv().get(), content: object.bytes().clone() }
    }
}

/// Keeps an object. Its bytes are copied, so it pins nothing of the message that it came in.
pub(crate) fn object(
    object: Option<wire::Object>,
    schema: &ObjectSchema,
) -> Result<Arc<Object>, ProtocolError> {
    let wire::Object { key, rv, content } = required(object, "object")?;
    if content.is_empty() {
        return Err(ProtocolError::Missing("object.content"));
    }
    let object = Object::parse(&content, schema).map_err(|_| ProtocolError::Invalid("object.content"))?;
    if object.key().as_str() != key {
        return Err(ProtocolError::Invalid("object.key"));
    }
    if object.rv().get() != rv {
        return Err(ProtocolError::Invalid("object.rv"));
    }
    Ok(Arc::new(object))
}

pub(crate) fn objects(
    objects: Vec<wire::Object>,
    schema: &ObjectSchema,
) -> Result<Vec<Arc<Object>>, ProtocolError> {
    all(objects, |one| object(Some(one), schema))
}

pub(crate) fn wire_objects(objects: &[Arc<Object>]) -> Vec<wire::Object> {
    objects.iter().map(|object| wire::Object::from(&**object)).collect()
}

/// Checks that the events rise inside the interval.
pub(crate) fn statement<E: Event>(
    interval: &Interval,
    events: Vec<E>,
) -> Result<Statement<E>, ProtocolError> {
    let (after, to) = (ResourceVersion::new(interval.after), ResourceVersion::new(interval.to));
    Statement::new(SourceId(interval.source), after, to, events)
        .map_err(|_| ProtocolError::Invalid("statement.events"))
}

pub(crate) fn event_kind(kind: i32) -> Result<EventKind, ProtocolError> {
    match wire::EventKind::try_from(kind) {
        Ok(wire::EventKind::Added) => Ok(EventKind::Added),
        Ok(wire::EventKind::Modified) => Ok(EventKind::Modified),
        Ok(wire::EventKind::Deleted) => Ok(EventKind::Deleted),
        Ok(wire::EventKind::Unspecified) => Err(ProtocolError::Missing("event.kind")),
        Err(_) => Err(ProtocolError::Invalid("event.kind")),
    }
}

impl From<EventKind> for wire::EventKind {
    fn from(kind: EventKind) -> Self {
        match kind {
            EventKind::Added => Self::Added,
            EventKind::Modified => Self::Modified,
            EventKind::Deleted => Self::Deleted,
        }
    }
}

// === windows ===

impl From<&Window> for wire::Window {
    fn from(window: &Window) -> Self {
        let Window { floor, frontier } = window;
        Self { floor: floor.get(), to: frontier.get() }
    }
}

impl TryFrom<wire::Window> for Window {
    type Error = ProtocolError;

    fn try_from(window: wire::Window) -> Result<Self, ProtocolError> {
        if window.floor > window.to {
            return Err(ProtocolError::Invalid("window.to"));
        }
        let (floor, frontier) = (ResourceVersion::new(window.floor), ResourceVersion::new(window.to));
        Ok(Self { floor, frontier })
    }
}

impl From<&Unanswered> for wire::Unanswered {
    fn from(unanswered: &Unanswered) -> Self {
        use wire::unanswered::Why;
        let why = match unanswered {
            Unanswered::TooOld { floor } => Why::TooOld(floor.get()),
            Unanswered::NotReached { frontier } => Why::NotReached(frontier.get()),
            Unanswered::NotMine => Why::NotMine(wire::Nothing {}),
            Unanswered::Empty => Why::Empty(wire::Nothing {}),
        };
        Self { why: Some(why) }
    }
}

impl TryFrom<wire::Unanswered> for Unanswered {
    type Error = ProtocolError;

    fn try_from(unanswered: wire::Unanswered) -> Result<Self, ProtocolError> {
        use wire::unanswered::Why;
        Ok(match required(unanswered.why, "unanswered.why")? {
            Why::TooOld(floor) => Self::TooOld { floor: ResourceVersion::new(floor) },
            Why::NotReached(frontier) => Self::NotReached { frontier: ResourceVersion::new(frontier) },
            Why::NotMine(wire::Nothing {}) => Self::NotMine,
            Why::Empty(wire::Nothing {}) => Self::Empty,
        })
    }
}
