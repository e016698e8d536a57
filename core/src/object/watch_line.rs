//! One line of a watch: `{"type":"ADDED","object":{…}}`. The usual spelling is recognised by its first and last bytes,
//! without looking at the object: whoever scans the object next finds what is wrong with it.

use super::scan::{Cursor, ScanError, Span};

/// A line, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLine {
    /// What happened.
    pub kind: WatchKind,
    /// The object's bytes in the line.
    pub object: Span,
}

/// The `type` of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchKind {
    /// The object is new to this watch.
    Added,
    /// The object changed.
    Modified,
    /// The object is gone, or left what this watch selects.
    Deleted,
    /// Nothing but a position; the object has no name.
    Bookmark,
    /// The object is a Status, and the stream ends.
    Error,
}

/// Why a line is no watch event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchLineError {
    /// Not the JSON of an object.
    #[error("read the line of a watch")]
    Syntax(#[from] ScanError),
    /// No `type`, or none that is known.
    #[error("the line of a watch has no known type")]
    UnknownType,
    /// No `object`, or one that is not an object.
    #[error("the line of a watch has no object")]
    NoObject,
}

const KINDS: [WatchKind; 5] =
    [WatchKind::Added, WatchKind::Modified, WatchKind::Deleted, WatchKind::Bookmark, WatchKind::Error];

// === impl WatchLine ===

impl WatchLine {
    /// Takes a line apart; white space around it, a final line feed included, is allowed.
    pub fn parse(line: &[u8]) -> Result<Self, WatchLineError> {
        if u32::try_from(line.len()).is_err() {
            return Err(ScanError::TooLong.into());
        }
        match Self::parse_usual(line) {
            Some(usual) => Ok(usual),
            None => Self::parse_any(line),
        }
    }

    /// The bytes of the object, given the line that was parsed.
    pub fn object_of(self, line: &[u8]) -> &[u8] {
        self.object.of(line)
    }

    /// The spelling of Go's struct, key for key and without white space.
    fn parse_usual(line: &[u8]) -> Option<Self> {
        let line = line.trim_ascii_end();
        let rest = line.strip_prefix(b"{\"type\":\"")?;
        let kind = KINDS.into_iter().find(|kind| rest.starts_with(kind.as_str().as_bytes()))?;
        let object = rest[kind.as_str().len()..].strip_prefix(b"\",\"object\":")?.strip_suffix(b"}")?;
        let is_object = object.starts_with(b"{") && object.ends_with(b"}");
        let end = line.len() - 1;
        is_object.then(|| Self { kind, object: Span::new(end - object.len(), end) })
    }

    /// Any order of keys, any white space, keys that are not known.
    fn parse_any(line: &[u8]) -> Result<Self, WatchLineError> {
        let mut cursor = Cursor::new(line)?;
        let (mut kind, mut object) = (None, None);
        let mut has_more = cursor.open_object()?;
        while has_more {
            let key = cursor.key()?;
            let key = cursor.text(key);
            let first = cursor.peek()?;
            let start = cursor.at();
            if key.value == "type" && first == b'"' {
                let text = cursor.string()?;
                kind = WatchKind::parse(&cursor.text(text).value);
            } else {
                cursor.skip_value()?;
                if key.value == "object" {
                    object = (first == b'{').then(|| Span::new(start, cursor.at()));
                }
            }
            has_more = cursor.more(b'}')?;
        }
        cursor.end()?;
        let kind = kind.ok_or(WatchLineError::UnknownType)?;
        Ok(Self { kind, object: object.ok_or(WatchLineError::NoObject)? })
    }
}

// === impl WatchKind ===

impl WatchKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }

    /// The kind of this word; case matters.
    pub fn parse(word: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(line: &str) -> Result<(WatchKind, &str), WatchLineError> {
        let parsed = WatchLine::parse(line.as_bytes())?;
        Ok((parsed.kind, std::str::from_utf8(parsed.object_of(line.as_bytes())).unwrap()))
    }

    #[test]
    fn takes_the_usual_spelling_apart() {
        for kind in KINDS {
            let line = format!("{{\"type\":\"{}\",\"object\":{{\"a\":{{}}}}}}\n", kind.as_str());
            assert_eq!(parts(&line), Ok((kind, "{\"a\":{}}")));
        }
    }

    #[test]
    fn takes_other_spellings_apart() {
        let line = " {\"object\" : {\"a\":\"}\"} , \"x\":[1], \"typ\\u0065\":\"DELETED\" } \r\n";
        assert_eq!(parts(line), Ok((WatchKind::Deleted, "{\"a\":\"}\"}")));
        let twice = "{\"type\":\"ADDED\",\"type\":\"MODIFIED\",\"object\":{},\"object\":{\"b\":1}}";
        assert_eq!(parts(twice), Ok((WatchKind::Modified, "{\"b\":1}")));
    }

    #[test]
    fn refuses_what_is_no_event() {
        assert_eq!(parts("{\"type\":\"PATCHED\",\"object\":{}}"), Err(WatchLineError::UnknownType));
        assert_eq!(parts("{\"type\":\"added\",\"object\":{}}"), Err(WatchLineError::UnknownType));
        assert_eq!(parts("{\"object\":{}}"), Err(WatchLineError::UnknownType));
        assert_eq!(parts("{\"type\":\"ADDED\"}"), Err(WatchLineError::NoObject));
        assert_eq!(parts("{\"type\":\"ADDED\",\"object\":null}"), Err(WatchLineError::NoObject));
        for cut in
            ["", "{", "{\"type\":\"ADDED\",\"object\":{\"a\":1", "{\"type\":\"ADDED\",\"object\":{\"a\":1}"]
        {
            assert_eq!(parts(cut), Err(ScanError::UnexpectedEnd.into()), "{cut}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(line in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = WatchLine::parse(&line);
        }

        #[test]
        fn both_ways_agree(kind in proptest::sample::select(&KINDS[..]), value in "[a-z{}\\\\\"]{0,12}") {
            let object = serde_json::json!({ "k": value }).to_string();
            let line = format!("{{\"type\":\"{}\",\"object\":{object}}}", kind.as_str());
            prop_assert_eq!(WatchLine::parse_usual(line.as_bytes()), WatchLine::parse_any(line.as_bytes()).ok());
            prop_assert_eq!(parts(&line), Ok((kind, object.as_str())));
        }
    }
}
