//! The options of a list or watch: decoding them from the query, upstream's defaults and checks in upstream's order, and
//! what the request then asks for. `resourceVersion` stays text, because `00` is the number 0 but not the text `0` that
//! upstream's special cases look for.

mod defaults;
mod intent;
mod time;
mod validation;

use crate::go_text::{NumberError, parse_i64};
use crate::interest::FieldTerm;
use crate::query::Query;
use crate::selector::{FieldSelector, FieldSelectorError, FieldTable, LabelSelector, LabelSelectorError};
use crate::shard_selector::{ShardSelector, ShardSelectorError};
use crate::status::Status;

pub use intent::{
    Continuation, Freshness, GetIntent, ListAt, ListIntent, PageLimit, PathForm, Reach, WatchIntent,
};
pub use time::{DurationError, WatchTimeout, request_timeout};

const SHARD_SELECTOR: &str = "shardSelector";

/// The options as the client gave them, and after [`ListOptions::validate`] with upstream's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// `labelSelector`.
    pub label_selector: LabelSelector,
    /// `fieldSelector`, its labels not yet known to be the resource's.
    pub field_selector: FieldSelector,
    /// Whether the query asks for a watch; a `/watch/` path asks for one without it.
    pub watch: bool,
    /// `allowWatchBookmarks`.
    pub allow_watch_bookmarks: bool,
    /// `resourceVersion` as written.
    pub resource_version: String,
    /// `resourceVersionMatch` as written.
    pub resource_version_match: String,
    /// `timeoutSeconds`.
    pub timeout_seconds: Option<i64>,
    /// `limit`; nothing up to 0 limits.
    pub limit: i64,
    /// `continue` as written.
    pub continue_token: String,
    /// `sendInitialEvents`.
    pub send_initial_events: Option<bool>,
    shard_selector: ShardText,
}

/// Whether upstream's gate WatchList is on, as it is by default from 1.34.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchListGate {
    /// A watch may send the initial state and mark its end.
    On,
    /// It may not.
    Off,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ShardText {
    #[default]
    Absent,
    Given(String),
    Undecodable,
}

/// Why a query holds no list options; the text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum DecodeError {
    #[error(transparent)]
    Number(#[from] NumberError),
    #[error(transparent)]
    Labels(#[from] LabelSelectorError),
    #[error(transparent)]
    Fields(#[from] FieldSelectorError),
}

// === impl ListOptions ===

impl ListOptions {
    /// Reads the options; 400 for a bad number or selector. Numbers come first, whatever the order in the query.
    ///
    /// A query with [foreign bytes](Query::is_utf8) holds other options than these.
    pub fn decode(query: &Query) -> Result<Self, Status> {
        Self::decode_in_order(query).map_err(|error| Status::bad_request(error.to_string()))
    }

    /// The field selector in the terms of the resource, narrowed to the object that the URL names. 400 for a label that
    /// the resource does not know, and then for a selector that asks for another object than the URL.
    pub fn field_terms(&self, table: &FieldTable, name: Option<&str>) -> Result<Vec<FieldTerm>, Status> {
        const NAME: &str = "metadata.name";
        let terms = table.resolve(&self.field_selector)?;
        match name {
            Some(name) if self.field_selector.is_everything() => {
                Ok(table.resolve(&FieldSelector::equals(NAME, name))?)
            }
            Some(name) if self.field_selector.exact(NAME) != Some(name) => {
                Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"))
            }
            Some(_) | None => Ok(terms),
        }
    }

    /// The shard selector, if there is one. 400 for a broken one, and for one that cannot be decoded and that upstream
    /// would drop: without it the client would get everything.
    pub fn shard_selector(&self) -> Result<Option<ShardSelector>, Status> {
        match &self.shard_selector {
            ShardText::Absent => Ok(None),
            ShardText::Given(text) => ShardSelector::parse(text).map(Some).map_err(Status::from),
            ShardText::Undecodable => Err(ShardSelectorError::Undecodable.into()),
        }
    }

    /// Whether the client asks for a part of the hash space, well or badly.
    pub fn has_shard_selector(&self) -> bool {
        self.shard_selector != ShardText::Absent
    }

    fn decode_in_order(query: &Query) -> Result<Self, DecodeError> {
        let text = |name| query.get(name).unwrap_or_default();
        let truth = |name| query.get(name).map(is_true);
        let mut options = Self {
            watch: truth("watch").unwrap_or_default(),
            allow_watch_bookmarks: truth("allowWatchBookmarks").unwrap_or_default(),
            resource_version: text("resourceVersion").to_owned(),
            resource_version_match: text("resourceVersionMatch").to_owned(),
            timeout_seconds: query.get("timeoutSeconds").map(parse_i64).transpose()?,
            limit: query.get("limit").map(parse_i64).transpose()?.unwrap_or_default(),
            continue_token: text("continue").to_owned(),
            send_initial_events: truth("sendInitialEvents"),
            shard_selector: ShardText::of(query),
            ..Self::default()
        };
        options.label_selector = LabelSelector::parse(text("labelSelector"))?;
        options.field_selector = FieldSelector::parse(text("fieldSelector"))?;
        Ok(options)
    }
}

// === impl ShardText ===

impl ShardText {
    fn of(query: &Query) -> Self {
        match query.get(SHARD_SELECTOR) {
            _ if query.drops(SHARD_SELECTOR) => Self::Undecodable,
            None | Some("") => Self::Absent,
            Some(text) => Self::Given(text.to_owned()),
        }
    }
}

/// Everything is true but `0` and `false` in any case; the empty text is true.
fn is_true(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}
