//! One pass over an object. Every key is visited once; the values that nobody asked for are skipped. A repeated key
//! wipes what was found under its first occurrence, so that the last one counts, whole.

use super::cursor::Quoted;
use super::field_paths::Node;
use super::{Cursor, FieldPaths, ScanError, Scanned, Span, Text};

/// The pass and what it has found so far.
pub(super) struct Walk<'a, 'p> {
    cursor: Cursor<'a>,
    paths: &'p FieldPaths,
    found: Scanned<'a>,
    has_unsorted_labels: bool,
}

/// Where in the object a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Kind,
    ApiVersion,
    Metadata,
    Name,
    Namespace,
    Uid,
    ResourceVersion,
    Labels,
    Elsewhere,
}

// === impl Walk ===

impl<'a, 'p> Walk<'a, 'p> {
    pub(super) fn new(cursor: Cursor<'a>, paths: &'p FieldPaths) -> Self {
        let found = Scanned { fields: vec![None; paths.len()], ..Scanned::default() };
        Self { cursor, paths, found, has_unsorted_labels: false }
    }

    pub(super) fn run(mut self) -> Result<Scanned<'a>, ScanError> {
        if self.cursor.peek()? != b'{' {
            return Err(self.cursor.unexpected());
        }
        self.object(Place::Root, Some(self.paths.root()))?;
        self.cursor.end()?;
        if self.has_unsorted_labels {
            sort_labels(&mut self.found.labels);
        }
        Ok(self.found)
    }

    fn object(&mut self, place: Place, node: Option<&Node>) -> Result<(), ScanError> {
        if place == Place::Labels {
            return self.labels(node);
        }
        let mut has_more = self.cursor.open_object()?;
        let head = self.cursor.at();
        let mut places = [Place::Elsewhere; 2];
        for count in 0.. {
            if !has_more {
                break;
            }
            let key = self.cursor.key()?;
            let key = self.cursor.text(key);
            let child_place = place.child(&key.value);
            self.value(child_place, node.and_then(|node| node.key(&key.value)))?;
            has_more = self.cursor.more(b'}')?;
            if let Some(seen) = places.get_mut(count) {
                *seen = child_place;
                if has_more && count == 1 && places == [Place::Kind, Place::ApiVersion] {
                    self.found.type_meta = Span::new(head, self.cursor.at());
                }
            }
        }
        Ok(())
    }

    fn array(&mut self, node: &Node) -> Result<(), ScanError> {
        self.cursor.expect(b'[')?;
        if self.cursor.take(b']')? {
            return Ok(());
        }
        for index in 0.. {
            match node.index(index) {
                Some(child) => self.value(Place::Elsewhere, Some(child))?,
                None => self.cursor.skip_value()?,
            }
            if !self.cursor.more(b']')? {
                break;
            }
        }
        Ok(())
    }

    fn labels(&mut self, node: Option<&Node>) -> Result<(), ScanError> {
        let mut has_more = self.cursor.open_object()?;
        while has_more {
            let key = self.cursor.key()?;
            let key = self.cursor.text(key);
            let value = match self.scalar("metadata.labels")? {
                Some(quoted) => self.cursor.text(quoted),
                None => Text::default(),
            };
            self.keep_fields(node.and_then(|node| node.key(&key.value)), &value);
            let is_next = self.found.labels.last().is_none_or(|(last, _)| last.value < key.value);
            self.has_unsorted_labels |= !is_next;
            self.found.labels.push((key, value));
            has_more = self.cursor.more(b'}')?;
        }
        Ok(())
    }

    fn value(&mut self, place: Place, node: Option<&Node>) -> Result<(), ScanError> {
        self.wipe(place, node);
        let first = self.cursor.peek()?;
        let start = self.cursor.at();
        match first {
            b'{' if place.holds_objects() || node.is_some_and(Node::has_keys) => self.object(place, node)?,
            b'[' if node.is_some_and(Node::has_indexes) => self.array(node.expect("it has indexes"))?,
            b'"' => {
                let quoted = self.cursor.string()?;
                self.keep(place, node, quoted);
            }
            b'{' | b'[' => self.cursor.skip_value()?,
            _ => {
                self.cursor.skip_scalar()?;
                if first != b'n' {
                    self.keep_fields(node, &self.cursor.raw_since(start));
                }
            }
        }
        if place == Place::Metadata && first == b'{' {
            self.found.metadata = Span::new(start, self.cursor.at());
        }
        place.check(first)
    }

    fn scalar(&mut self, field: &'static str) -> Result<Option<Quoted>, ScanError> {
        match self.cursor.peek()? {
            b'"' => self.cursor.string().map(Some),
            b'n' => self.cursor.skip_scalar().map(|()| None),
            _ => {
                self.cursor.skip_value()?;
                Err(ScanError::WrongType { field })
            }
        }
    }

    fn keep(&mut self, place: Place, node: Option<&Node>, quoted: Quoted) {
        let slot = match place {
            Place::Kind => &mut self.found.kind,
            Place::ApiVersion => &mut self.found.api_version,
            Place::Name => &mut self.found.name,
            Place::Namespace => &mut self.found.namespace,
            Place::Uid => &mut self.found.uid,
            Place::ResourceVersion => &mut self.found.resource_version,
            Place::Root | Place::Metadata | Place::Labels | Place::Elsewhere => {
                return if node.is_some() {
                    self.keep_fields(node, &self.cursor.text(quoted))
                };
            }
        };
        *slot = self.cursor.text(quoted);
        if node.is_some() {
            self.keep_fields(node, &self.cursor.text(quoted));
        }
    }

    fn keep_fields(&mut self, node: Option<&Node>, text: &Text<'a>) {
        for &number in node.map_or(&[][..], |node| &node.ends) {
            self.found.fields[number] = Some(text.clone());
        }
    }

    /// Forgets what an earlier value of the same key left.
    fn wipe(&mut self, place: Place, node: Option<&Node>) {
        let found = &mut self.found;
        if let Some(node) = node {
            node.each_end(&mut |number| found.fields[number] = None);
        }
        match place {
            Place::Kind => found.kind = Text::default(),
            Place::ApiVersion => found.api_version = Text::default(),
            Place::Name => found.name = Text::default(),
            Place::Namespace => found.namespace = Text::default(),
            Place::Uid => found.uid = Text::default(),
            Place::ResourceVersion => found.resource_version = Text::default(),
            Place::Labels => found.labels.clear(),
            Place::Metadata => {
                found.metadata = Span::default();
                for part in [Place::Name, Place::Namespace, Place::Uid, Place::ResourceVersion, Place::Labels]
                {
                    self.wipe(part, None);
                }
            }
            Place::Root | Place::Elsewhere => {}
        }
    }
}

// === impl Place ===

impl Place {
    fn child(self, key: &str) -> Self {
        match (self, key) {
            (Self::Root, "kind") => Self::Kind,
            (Self::Root, "apiVersion") => Self::ApiVersion,
            (Self::Root, "metadata") => Self::Metadata,
            (Self::Metadata, "name") => Self::Name,
            (Self::Metadata, "namespace") => Self::Namespace,
            (Self::Metadata, "uid") => Self::Uid,
            (Self::Metadata, "resourceVersion") => Self::ResourceVersion,
            (Self::Metadata, "labels") => Self::Labels,
            _ => Self::Elsewhere,
        }
    }

    fn holds_objects(self) -> bool {
        matches!(self, Self::Root | Self::Metadata | Self::Labels)
    }

    /// Whether a value that starts with this byte may stand here; `null` may everywhere.
    fn check(self, first: u8) -> Result<(), ScanError> {
        let (field, wanted) = match self {
            Self::Kind => ("kind", b'"'),
            Self::ApiVersion => ("apiVersion", b'"'),
            Self::Metadata => ("metadata", b'{'),
            Self::Name => ("metadata.name", b'"'),
            Self::Namespace => ("metadata.namespace", b'"'),
            Self::Uid => ("metadata.uid", b'"'),
            Self::ResourceVersion => ("metadata.resourceVersion", b'"'),
            Self::Labels => ("metadata.labels", b'{'),
            Self::Root | Self::Elsewhere => return Ok(()),
        };
        if first == wanted || first == b'n' { Ok(()) } else { Err(ScanError::WrongType { field }) }
    }
}

/// Sorts by key; of equal keys the last one stays.
fn sort_labels(labels: &mut Vec<(Text<'_>, Text<'_>)>) {
    labels.reverse();
    labels.sort_by(|(a, _), (b, _)| a.value.cmp(&b.value));
    labels.dedup_by(|(a, _), (b, _)| a.value == b.value);
}
