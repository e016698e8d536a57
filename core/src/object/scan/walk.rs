//! One pass over an object. Every key is visited once; the values that nobody asked for are skipped. A repeated key
//! wipes what was found under its first occurrence, so that the last one counts, whole.

use super::cursor::Quoted;
use super::field_paths::Node;
use super::{Cursor, FieldPaths, Part, ScanError, Scanned, Span, Text};

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
    At(Part),
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
        if place == Place::At(Part::Labels) {
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
                if has_more && count == 1 && places == [Place::At(Part::Kind), Place::At(Part::ApiVersion)] {
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
            let value = match self.label()? {
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
        if place == Place::At(Part::Metadata) && first == b'{' {
            self.found.metadata = Span::new(start, self.cursor.at());
        }
        place.check(first)
    }

    /// The value of a label.
    fn label(&mut self) -> Result<Option<Quoted>, ScanError> {
        match self.cursor.peek()? {
            b'"' => self.cursor.string().map(Some),
            b'n' => self.cursor.skip_scalar().map(|()| None),
            _ => {
                self.cursor.skip_value()?;
                Err(ScanError::WrongType(Part::Labels))
            }
        }
    }

    fn keep(&mut self, place: Place, node: Option<&Node>, quoted: Quoted) {
        let found = &mut self.found;
        let slot = match place {
            Place::At(Part::Kind) => Some(&mut found.kind),
            Place::At(Part::ApiVersion) => Some(&mut found.api_version),
            Place::At(Part::Name) => Some(&mut found.name),
            Place::At(Part::Namespace) => Some(&mut found.namespace),
            Place::At(Part::Uid) => Some(&mut found.uid),
            Place::At(Part::ResourceVersion) => Some(&mut found.resource_version),
            Place::At(Part::Metadata | Part::Labels) | Place::Root | Place::Elsewhere => None,
        };
        if let Some(slot) = slot {
            *slot = self.cursor.text(quoted);
        }
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
        if let Some(node) = node {
            node.each_end(&mut |number| self.found.fields[number] = None);
        }
        if let Place::At(part) = place {
            self.wipe_part(part);
        }
    }

    fn wipe_part(&mut self, part: Part) {
        let found = &mut self.found;
        match part {
            Part::Kind => found.kind = Text::default(),
            Part::ApiVersion => found.api_version = Text::default(),
            Part::Name => found.name = Text::default(),
            Part::Namespace => found.namespace = Text::default(),
            Part::Uid => found.uid = Text::default(),
            Part::ResourceVersion => found.resource_version = Text::default(),
            Part::Labels => found.labels.clear(),
            Part::Metadata => {
                found.metadata = Span::default();
                let parts = [Part::Name, Part::Namespace, Part::Uid, Part::ResourceVersion, Part::Labels];
                parts.into_iter().for_each(|part| self.wipe_part(part));
            }
        }
    }
}

// === impl Place ===

impl Place {
    fn child(self, key: &str) -> Self {
        let part = match (self, key) {
            (Self::Root, "kind") => Part::Kind,
            (Self::Root, "apiVersion") => Part::ApiVersion,
            (Self::Root, "metadata") => Part::Metadata,
            (Self::At(Part::Metadata), "name") => Part::Name,
            (Self::At(Part::Metadata), "namespace") => Part::Namespace,
            (Self::At(Part::Metadata), "uid") => Part::Uid,
            (Self::At(Part::Metadata), "resourceVersion") => Part::ResourceVersion,
            (Self::At(Part::Metadata), "labels") => Part::Labels,
            _ => return Self::Elsewhere,
        };
        Self::At(part)
    }

    fn holds_objects(self) -> bool {
        matches!(self, Self::Root | Self::At(Part::Metadata | Part::Labels))
    }

    /// Whether a value that starts with this byte may stand here; `null` may everywhere.
    fn check(self, first: u8) -> Result<(), ScanError> {
        let Self::At(part) = self else { return Ok(()) };
        let wanted = if self.holds_objects() { b'{' } else { b'"' };
        if first == wanted || first == b'n' { Ok(()) } else { Err(ScanError::WrongType(part)) }
    }
}

/// Sorts by key; of equal keys the last one stays.
fn sort_labels(labels: &mut Vec<(Text<'_>, Text<'_>)>) {
    labels.reverse();
    labels.sort_by(|(a, _), (b, _)| a.value.cmp(&b.value));
    labels.dedup_by(|(a, _), (b, _)| a.value == b.value);
}
