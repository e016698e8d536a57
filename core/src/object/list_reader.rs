//! Takes a list's body apart while it arrives: each item as soon as its last byte is there, and at the end what stands
//! around the items. Never more than one item and one chunk is held. Custom resources put `metadata`, and so the list's
//! resourceVersion, behind the items: nothing about the list is known for sure before [`ListReader::finish`].
//!
//! Items are cut out by counting braces; whether an item is well-formed, its scan finds out.

mod capture;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::Deserialize;

use crate::resource_version::ResourceVersion;
use capture::Capture;

/// The longest value that is held. A request to upstream, and so an object, is at most 3 MiB; in JSON some kinds take
/// several times what they take in protobuf, and escapes may take six bytes for one.
const MAX_VALUE_BYTES: usize = 32 << 20;

/// A list's body, as far as it has arrived.
pub struct ListReader {
    /// Arrived and not yet handed out.
    buffer: Vec<u8>,
    /// Where in the buffer reading goes on.
    at: usize,
    /// How many bytes of the body lie before the buffer.
    dropped: u64,
    expecting: Expecting,
    has_items: bool,
    envelope: ListEnvelope,
}

/// What stands around the items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListEnvelope {
    /// The kind of the list, for example `PodList`.
    pub kind: String,
    /// Its group and version, as written.
    pub api_version: String,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.continue`; `None` also where it is empty, as at the end of every custom list.
    pub continue_token: Option<String>,
    /// `metadata.remainingItemCount`.
    pub remaining_item_count: Option<i64>,
    /// `metadata.shardInfo.selector`: the selector that upstream says it applied.
    pub shard_selector: Option<String>,
}

/// Why a body is no list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// A byte that the grammar does not allow here.
    #[error("unexpected byte at {at} of a list")]
    Unexpected {
        /// The offset in the body.
        at: u64,
    },
    /// The body stopped before the list did.
    #[error("the body of a list ended at byte {at}, inside the list")]
    Cut {
        /// How many bytes there were.
        at: u64,
    },
    /// No object is as long as that.
    #[error("a value of more than {MAX_VALUE_BYTES} bytes at {at} of a list")]
    TooLong {
        /// The offset of the value in the body.
        at: u64,
    },
    /// A value beside the items cannot be read.
    #[error("read {field} of a list")]
    Envelope {
        /// Which one.
        field: &'static str,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// No `items`, or twice.
    #[error("not exactly one value for items in a list")]
    Items,
    /// No `metadata.resourceVersion`, or one that is no number.
    #[error("a list without a resourceVersion")]
    NoResourceVersion,
}

/// What the next byte that is not white space belongs to.
enum Expecting {
    List,
    KeyOrEnd,
    Key,
    InKey(Capture),
    Colon(Field),
    Value(Field),
    InValue(Field, Capture),
    CommaOrEnd,
    ItemOrEnd,
    Item,
    InItem(Capture),
    CommaOrEndOfItems,
    Nothing,
}

/// The keys of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Kind,
    ApiVersion,
    Metadata,
    Items,
    Other,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListMeta {
    #[serde(rename = "resourceVersion")]
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    #[serde(rename = "remainingItemCount")]
    remaining_item_count: Option<i64>,
    #[serde(rename = "shardInfo")]
    shard_info: Option<ShardInfo>,
}

#[derive(Deserialize)]
struct ShardInfo {
    selector: Option<String>,
}

// === impl ListReader ===

impl Default for ListReader {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            at: 0,
            dropped: 0,
            expecting: Expecting::List,
            has_items: false,
            envelope: ListEnvelope::default(),
        }
    }
}

impl ListReader {
    /// Takes the next bytes of the body. Take the items that they complete before pushing more.
    pub fn push(&mut self, chunk: &[u8]) {
        let kept_from = match &self.expecting {
            Expecting::InKey(capture) | Expecting::InValue(_, capture) | Expecting::InItem(capture) => {
                self.at - capture.len()
            }
            _ => self.at,
        };
        self.buffer.drain(..kept_from);
        self.at -= kept_from;
        self.dropped += kept_from as u64;
        self.buffer.extend_from_slice(chunk);
    }

    /// The next item that has arrived whole; `None` until more is pushed, and after the last one.
    pub fn next_item(&mut self) -> Result<Option<&[u8]>, ListError> {
        while self.peek().is_some() {
            if let Some(item) = self.step()? {
                return Ok(Some(&self.buffer[item]));
            }
        }
        Ok(None)
    }

    /// What is known of the list so far.
    pub fn envelope(&self) -> &ListEnvelope {
        &self.envelope
    }

    /// Call when the body has ended and the last item was taken.
    pub fn finish(mut self) -> Result<ListEnvelope, ListError> {
        if self.next_item()?.is_some() || !matches!(self.expecting, Expecting::Nothing) {
            return Err(ListError::Cut { at: self.dropped + self.buffer.len() as u64 });
        }
        if !self.has_items {
            return Err(ListError::Items);
        }
        if self.envelope.resource_version.is_zero() {
            return Err(ListError::NoResourceVersion);
        }
        Ok(self.envelope)
    }

    /// The next byte, white space skipped unless a value is being captured.
    fn peek(&mut self) -> Option<u8> {
        let captures =
            matches!(self.expecting, Expecting::InKey(_) | Expecting::InValue(..) | Expecting::InItem(_));
        loop {
            let byte = *self.buffer.get(self.at)?;
            if captures || !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// One step on; the next byte has arrived. Says where an item stands that is complete.
    fn step(&mut self) -> Result<Option<Range<usize>>, ListError> {
        let byte = self.buffer[self.at];
        match std::mem::replace(&mut self.expecting, Expecting::Nothing) {
            Expecting::List => self.punctuation(byte == b'{', Expecting::KeyOrEnd)?,
            Expecting::KeyOrEnd if byte == b'}' => self.punctuation(true, Expecting::Nothing)?,
            Expecting::KeyOrEnd | Expecting::Key => self.begin(byte == b'"', Expecting::InKey)?,
            Expecting::InKey(capture) => {
                if let Some(key) = self.capture(capture, Expecting::InKey)? {
                    self.expecting = Expecting::Colon(self.field(key)?);
                }
            }
            Expecting::Colon(field) => self.punctuation(byte == b':', Expecting::Value(field))?,
            Expecting::Value(Field::Items) if std::mem::replace(&mut self.has_items, true) => {
                return Err(ListError::Items);
            }
            Expecting::Value(Field::Items) if byte == b'[' => self.punctuation(true, Expecting::ItemOrEnd)?,
            Expecting::Value(field) => self.begin(true, |capture| Expecting::InValue(field, capture))?,
            Expecting::InValue(field, capture) => {
                if let Some(value) = self.capture(capture, |capture| Expecting::InValue(field, capture))? {
                    self.keep(field, value)?;
                    self.expecting = Expecting::CommaOrEnd;
                }
            }
            Expecting::CommaOrEnd if byte == b',' => self.punctuation(true, Expecting::Key)?,
            Expecting::CommaOrEnd => self.punctuation(byte == b'}', Expecting::Nothing)?,
            Expecting::ItemOrEnd if byte == b']' => self.punctuation(true, Expecting::CommaOrEnd)?,
            Expecting::ItemOrEnd | Expecting::Item => self.begin(byte == b'{', Expecting::InItem)?,
            Expecting::InItem(capture) => {
                let item = self.capture(capture, Expecting::InItem)?;
                if item.is_some() {
                    self.expecting = Expecting::CommaOrEndOfItems;
                }
                return Ok(item);
            }
            Expecting::CommaOrEndOfItems if byte == b',' => self.punctuation(true, Expecting::Item)?,
            Expecting::CommaOrEndOfItems => self.punctuation(byte == b']', Expecting::CommaOrEnd)?,
            Expecting::Nothing => return Err(self.unexpected()),
        }
        Ok(None)
    }

    /// Takes a byte that stands for itself.
    fn punctuation(&mut self, fits: bool, next: Expecting) -> Result<(), ListError> {
        if !fits {
            return Err(self.unexpected());
        }
        self.at += 1;
        self.expecting = next;
        Ok(())
    }

    /// Starts to capture the value that begins with the next byte.
    fn begin(&mut self, fits: bool, next: impl FnOnce(Capture) -> Expecting) -> Result<(), ListError> {
        if !fits {
            return Err(self.unexpected());
        }
        self.expecting = next(Capture::default());
        Ok(())
    }

    /// Captures on; the range of the value when it is complete, else goes on expecting the rest.
    fn capture(
        &mut self,
        mut capture: Capture,
        next: impl FnOnce(Capture) -> Expecting,
    ) -> Result<Option<Range<usize>>, ListError> {
        let start = self.at - capture.len();
        let end = capture.read(&self.buffer[start..]);
        self.at = start + capture.len();
        let Some(is_complete) = end else {
            self.at -= 1;
            return Err(self.unexpected());
        };
        if capture.len() > MAX_VALUE_BYTES {
            return Err(ListError::TooLong { at: self.dropped + start as u64 });
        }
        if !is_complete {
            self.expecting = next(capture);
            return Ok(None);
        }
        Ok(Some(start..self.at))
    }

    fn field(&self, key: Range<usize>) -> Result<Field, ListError> {
        let key: String = self.read("a key", key)?;
        Ok(match key.as_str() {
            "kind" => Field::Kind,
            "apiVersion" => Field::ApiVersion,
            "metadata" => Field::Metadata,
            "items" => Field::Items,
            _ => Field::Other,
        })
    }

    /// Keeps a value of the list itself.
    fn keep(&mut self, field: Field, value: Range<usize>) -> Result<(), ListError> {
        match field {
            Field::Kind => self.envelope.kind = self.read::<Option<_>>("kind", value)?.unwrap_or_default(),
            Field::ApiVersion => {
                self.envelope.api_version = self.read::<Option<_>>("apiVersion", value)?.unwrap_or_default();
            }
            Field::Metadata => {
                let meta = self.read::<Option<ListMeta>>("metadata", value)?.unwrap_or_default();
                self.keep_metadata(meta)?;
            }
            Field::Items => self.read::<()>("items", value)?,
            Field::Other => {
                self.read::<serde::de::IgnoredAny>("an unknown key", value)?;
            }
        }
        Ok(())
    }

    fn keep_metadata(&mut self, meta: ListMeta) -> Result<(), ListError> {
        let version = meta.resource_version.unwrap_or_default();
        self.envelope.resource_version = version.parse().map_err(|_| ListError::NoResourceVersion)?;
        self.envelope.continue_token = meta.continue_token.filter(|token| !token.is_empty());
        self.envelope.remaining_item_count = meta.remaining_item_count;
        self.envelope.shard_selector = meta.shard_info.and_then(|info| info.selector);
        Ok(())
    }

    fn read<'a, T: Deserialize<'a>>(
        &'a self,
        field: &'static str,
        value: Range<usize>,
    ) -> Result<T, ListError> {
        serde_json::from_slice(&self.buffer[value]).map_err(|source| ListError::Envelope { field, source })
    }

    fn unexpected(&self) -> ListError {
        ListError::Unexpected { at: self.dropped + self.at as u64 }
    }
}
