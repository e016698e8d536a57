//! JSON values that keep the order of their keys, and the writer that makes the bytes a Go server makes.
//!
//! Key order is data here: a built-in object comes in the order of its Go struct, a custom one sorted, and a mirror
//! is right only if it hands on the bytes. `serde_json::Value` sorts its keys, so it cannot stand for the first kind.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// One JSON value; an object is a list of pairs in the order of its text.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Node {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(serde_json::Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Node>),
    /// An object; no key occurs twice.
    Object(Vec<(String, Node)>),
}

// === impl Node ===

impl Node {
    /// Parses JSON text.
    ///
    /// # Errors
    /// The parser's, for text that is not one JSON value.
    pub fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// An object without keys.
    pub fn object() -> Self {
        Self::Object(Vec::new())
    }

    /// The value of a key, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(pairs) => pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Array(_) => None,
        }
    }

    /// The value at a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The string at a path of keys, if there is one.
    pub fn text_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path).and_then(Self::as_text)
    }

    /// This value as a string.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// The pairs of an object; none for any other value.
    pub fn pairs(&self) -> &[(String, Self)] {
        match self {
            Self::Object(pairs) => pairs,
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Array(_) => &[],
        }
    }

    /// The elements of an array; none for any other value.
    pub fn elements(&self) -> &[Self] {
        match self {
            Self::Array(elements) => elements,
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Object(_) => &[],
        }
    }

    /// Sets a key, at the end if it is new. A value that is no object becomes one first.
    pub fn set(&mut self, key: &str, value: Self) {
        let pairs = self.as_object();
        match pairs.iter_mut().find(|(k, _)| k == key) {
            Some(pair) => pair.1 = value,
            None => pairs.push((key.to_owned(), value)),
        }
    }

    /// Removes a key and hands back its value.
    pub fn remove(&mut self, key: &str) -> Option<Self> {
        let Self::Object(pairs) = self else { return None };
        let index = pairs.iter().position(|(k, _)| k == key)?;
        Some(pairs.remove(index).1)
    }

    /// The value of a key to change, made an empty object if it was missing.
    pub fn entry(&mut self, key: &str) -> &mut Self {
        let pairs = self.as_object();
        let index = pairs.iter().position(|(k, _)| k == key).unwrap_or_else(|| {
            pairs.push((key.to_owned(), Self::object()));
            pairs.len() - 1
        });
        &mut pairs[index].1
    }

    /// Sorts the keys of this value and of all values in it.
    pub fn sort_deep(&mut self) {
        match self {
            Self::Object(pairs) => {
                pairs.sort_by(|a, b| a.0.cmp(&b.0));
                pairs.iter_mut().for_each(|(_, value)| value.sort_deep());
            }
            Self::Array(elements) => elements.iter_mut().for_each(Self::sort_deep),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => {}
        }
    }

    /// Moves the given keys to the front, in the given order; the others keep theirs.
    pub fn order_first(&mut self, keys: &[&str]) {
        let rank = |key: &str| keys.iter().position(|k| *k == key).unwrap_or(keys.len());
        if let Self::Object(pairs) = self {
            pairs.sort_by_key(|(key, _)| rank(key));
        }
    }

    /// Applies a JSON merge patch (RFC 7386).
    pub fn merge(&mut self, patch: &Self) {
        let Self::Object(changes) = patch else {
            self.clone_from(patch);
            return;
        };
        self.as_object();
        for (key, change) in changes {
            if *change == Self::Null {
                self.remove(key);
            } else {
                self.entry(key).merge(change);
            }
        }
    }

    /// The compact text, escaped as Go escapes it.
    pub fn to_text(&self) -> String {
        let mut out = String::with_capacity(256);
        self.write(&mut out, None);
        out
    }

    /// The text indented by two spaces, as Go indents it; no newline at the end.
    pub fn to_pretty(&self) -> String {
        let mut out = String::with_capacity(512);
        self.write(&mut out, Some(0));
        out
    }

    fn as_object(&mut self) -> &mut Vec<(String, Self)> {
        if !matches!(self, Self::Object(_)) {
            *self = Self::object();
        }
        match self {
            Self::Object(pairs) => pairs,
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Array(_) => {
                unreachable!("made an object just above")
            }
        }
    }

    fn write(&self, out: &mut String, indent: Option<usize>) {
        let deeper = indent.map(|depth| depth + 1);
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => out.push_str(&number.to_string()),
            Self::String(text) => write_string(text, out),
            Self::Array(elements) => write_all(
                out,
                indent,
                ['[', ']'],
                (elements, |element, out| {
                    element.write(out, deeper);
                }),
            ),
            Self::Object(pairs) => write_all(
                out,
                indent,
                ['{', '}'],
                (pairs, |(key, value), out| {
                    write_string(key, out);
                    out.push_str(if indent.is_some() { ": " } else { ":" });
                    value.write(out, deeper);
                }),
            ),
        }
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<u64> for Node {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Node {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

/// An object from pairs, in their order.
pub fn object<const N: usize>(pairs: [(&str, Node); N]) -> Node {
    Node::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

struct NodeVisitor;

// === impl NodeVisitor ===

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(serde_json::Number::from_f64(value).map_or(Node::Null, Node::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            elements.push(element);
        }
        Ok(Node::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut object = Node::object();
        while let Some((key, value)) = map.next_entry::<String, Node>()? {
            object.set(&key, value);
        }
        Ok(object)
    }
}

fn write_all<T>(
    out: &mut String,
    indent: Option<usize>,
    [open, close]: [char; 2],
    (parts, write): (&[T], impl Fn(&T, &mut String)),
) {
    out.push(open);
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_break(out, indent.map(|depth| depth + 1));
        write(part, out);
    }
    if !parts.is_empty() {
        write_break(out, indent);
    }
    out.push(close);
}

fn write_break(out: &mut String, indent: Option<usize>) {
    if let Some(depth) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
