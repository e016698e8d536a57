//! The query of a request, read as Go's `net/url` reads it: that decides which parameters upstream sees at all. A pair
//! that cannot be decoded is not an error there; it vanishes, and so may take a filter with it. Its raw text is kept
//! here so that a vanished filter can be refused.

use std::borrow::Cow;

/// Go refuses a query of more pairs as a whole, and its callers go on with an empty one.
const MAX_PAIRS: usize = 10_000;

/// The decoded pairs of a query, in the order of the request.
///
/// Go's strings are bytes; these are text. Bytes that are not UTF-8 become U+FFFD and [`Query::is_utf8`] turns false:
/// upstream sees another request than this one, so it must be passed through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<Pair>,
    dropped: Vec<String>,
    has_foreign_bytes: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    name: String,
    value: String,
}

// === impl Query ===

impl Query {
    /// Reads the text after the `?` of a URL, without it. Never fails: see [`Query::dropped`].
    pub fn parse(raw: &str) -> Self {
        if memchr::memchr_iter(b'&', raw.as_bytes()).count() >= MAX_PAIRS {
            return Self { dropped: vec![raw.to_owned()], ..Self::default() };
        }
        let mut query = Self::default();
        for text in raw.split('&').filter(|text| !text.is_empty()) {
            query.push(text);
        }
        query
    }

    /// The first value of the parameter; the ones after it count for nothing.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|pair| pair.name == name).map(|pair| pair.value.as_str())
    }

    /// Whether the parameter is there, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Name and value of every decoded pair, repeated ones included.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|pair| (pair.name.as_str(), pair.value.as_str()))
    }

    /// The raw text of the pairs that upstream drops without a word.
    pub fn dropped(&self) -> impl Iterator<Item = &str> {
        self.dropped.iter().map(String::as_str)
    }

    /// Whether a dropped pair mentions the parameter, under any escaping that can be read.
    pub fn drops(&self, name: &str) -> bool {
        self.dropped().any(|raw| raw.contains(name) || decode_readable(raw).contains(name))
    }

    /// Whether every name and value is exactly what upstream sees.
    pub fn is_utf8(&self) -> bool {
        !self.has_foreign_bytes
    }

    fn push(&mut self, text: &str) {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        if text.contains(';') || !is_well_escaped(name) || !is_well_escaped(value) {
            self.dropped.push(text.to_owned());
            return;
        }
        let pair = Pair { name: self.decode(name), value: self.decode(value) };
        self.pairs.push(pair);
    }

    fn decode(&mut self, text: &str) -> String {
        let spaced = with_spaces(text);
        let bytes: Vec<u8> = percent_encoding::percent_decode_str(&spaced).collect();
        String::from_utf8(bytes).unwrap_or_else(|error| {
            self.has_foreign_bytes = true;
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        })
    }
}

/// Letters, digits, and what has no meaning of its own in a URI.
const UNRESERVED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as the name or value of a pair, or as one segment of a path.
pub fn escape(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, UNRESERVED).to_string()
}

/// Whether two hex digits follow every `%`.
fn is_well_escaped(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'%', bytes)
        .all(|at| bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

fn with_spaces(text: &str) -> Cow<'_, str> {
    if text.contains('+') { text.replace('+', " ").into() } else { text.into() }
}

/// Decodes the escapes that are good and leaves the others as they stand.
fn decode_readable(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(raw: &str) -> Vec<(String, String)> {
        Query::parse(raw).pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn first_value_wins_and_names_keep_their_case() {
        let query = Query::parse("watch=true&watch=false&WATCH=0&a");
        assert_eq!(query.get("watch"), Some("true"));
        assert_eq!(query.get("WATCH"), Some("0"));
        assert_eq!(query.get("a"), Some(""));
        assert!(query.has("a") && !query.has("b"));
    }

    #[test]
    fn decodes_as_go_does() {
        assert_eq!(
            pairs("a=b+c%2Bd&&=x&e==f%3d&%61=%C3%A9"),
            [
                ("a".into(), "b c+d".into()),
                (String::new(), "x".into()),
                ("e".into(), "=f=".into()),
                ("a".into(), "é".into()),
            ]
        );
    }

    #[test]
    fn drops_broken_pairs_and_remembers_them() {
        let query = Query::parse("labelSelector=%zz&limit=1;limit=2&x=%&y=%4&shard%53elector=a%zz&ok=1");
        assert_eq!(query.pairs().collect::<Vec<_>>(), [("ok", "1")]);
        assert_eq!(query.dropped().count(), 5);
        assert!(query.drops("labelSelector") && query.drops("shardSelector") && !query.drops("ok"));
    }

    #[test]
    fn too_many_pairs_are_none() {
        let most = vec!["a=1"; MAX_PAIRS].join("&");
        assert_eq!(Query::parse(&most).pairs().count(), MAX_PAIRS);
        let more = Query::parse(&format!("{most}&shardSelector=x"));
        assert_eq!(more.pairs().count(), 0);
        assert!(more.drops("shardSelector"));
    }

    #[test]
    fn foreign_bytes_are_noticed() {
        let query = Query::parse("a=%ff");
        assert_eq!(query.get("a"), Some("\u{fffd}"));
        assert!(!query.is_utf8() && Query::parse("a=%C3%A9").is_utf8());
    }

    proptest! {
        #[test]
        fn every_piece_is_kept_or_dropped(raw in "[a-c=&;%+0-9é]{0,40}") {
            let query = Query::parse(&raw);
            let pieces = raw.split('&').filter(|piece| !piece.is_empty()).count();
            prop_assert_eq!(query.pairs().count() + query.dropped().count(), pieces);
        }

        #[test]
        fn escaped_text_comes_back(name in "\\PC{1,10}", value in any::<String>()) {
            let query = Query::parse(&format!("{}={}", escape(&name), escape(&value)));
            prop_assert_eq!(query.pairs().collect::<Vec<_>>(), [(name.as_str(), value.as_str())]);
        }
    }
}
