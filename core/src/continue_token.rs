//! Continue tokens in kube-apiserver's own format, so that a token survives a restart, works on any proxy and can be
//! handed to upstream. A token names a position and a key and nothing else: it is not bound to selectors, a limit or a
//! namespace, and must not be trusted to come from the list that it is used with.

mod base64_url;
mod go_json;
#[cfg(test)]
mod tests;

use crate::resource_version::ResourceVersion;
use crate::status::{Status, push_json_string};

const FORMAT: &str = "meta.k8s.io/v1";

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContinueToken {
    /// The state that is listed.
    pub rv: TokenVersion,
    /// The inclusive lower bound of the keys to come, without a slash before it: after an object that is its key and
    /// one NUL. It is relative to the list: `namespace/name` over all namespaces, `name` in one. Empty: from the start.
    pub start: String,
}

/// Which state a token's list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenVersion {
    /// That of the chain's first page.
    At(ResourceVersion),
    /// Whatever is latest; the pages before it showed something else.
    Latest,
}

/// How the key is written. Upstream reads both, and may change from page to page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySpelling {
    /// With a slash before it, as upstream's cache writes it.
    Slash,
    /// Without, as upstream writes what comes from etcd, and every token that replaces an expired one.
    Bare,
}

/// Why a token was refused; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not URL-safe base64 without padding.
    #[error("illegal base64 data at input byte {at}")]
    Base64 {
        /// The offset of the byte.
        at: usize,
    },
    /// Not JSON, or not that of a token.
    #[error(transparent)]
    Json(#[from] GoJsonError),
    /// Another format.
    #[error("server does not recognize this encoded version {0}")]
    Format(String),
    /// No version, or version 0.
    #[error("incorrect encoded start resourceVersion (version {FORMAT})")]
    NoVersion,
    /// No start key.
    #[error("encoded start key empty (version {FORMAT})")]
    NoStart,
    /// The key could lead out of the list's own keys.
    #[error("{0}")]
    Unclean(String),
}

pub use go_json::GoJsonError;

// === impl ContinueToken ===

impl ContinueToken {
    /// Goes on after the object with this key, relative to the list.
    pub fn after(key: &str, rv: ResourceVersion) -> Self {
        Self { rv: TokenVersion::At(rv), start: format!("{key}\0") }
    }

    /// The same place in the latest state.
    pub fn at_latest(&self) -> Self {
        Self { rv: TokenVersion::Latest, start: self.start.clone() }
    }

    /// Reads the parameter `continue`; 400 in upstream's words for what is no token.
    pub fn decode(token: &str) -> Result<Self, Status> {
        Self::read(token).map_err(Status::from)
    }

    /// Reads a token.
    pub fn read(token: &str) -> Result<Self, TokenError> {
        let json = base64_url::decode(token.as_bytes()).map_err(|at| TokenError::Base64 { at })?;
        let fields = go_json::Fields::read(&json)?;
        if fields.format != FORMAT {
            return Err(TokenError::Format(fields.format));
        }
        let rv = match fields.rv {
            0 => return Err(TokenError::NoVersion),
            1.. => TokenVersion::At(ResourceVersion::new(fields.rv.unsigned_abs())),
            _ => TokenVersion::Latest,
        };
        if fields.start.is_empty() {
            return Err(TokenError::NoStart);
        }
        let start = fields.start.strip_prefix('/').unwrap_or(&fields.start);
        if !is_clean(start) {
            return Err(TokenError::Unclean(fields.start));
        }
        Ok(Self { rv, start: start.to_owned() })
    }

    /// Writes the token.
    pub fn encode(&self, spelling: KeySpelling) -> String {
        let Self { rv, start } = self;
        let slash = match spelling {
            KeySpelling::Slash => "/",
            KeySpelling::Bare => "",
        };
        let version = match rv {
            TokenVersion::At(rv) => rv.to_string(),
            TokenVersion::Latest => "-1".to_owned(),
        };
        let mut json = format!("{{\"v\":\"{FORMAT}\",\"rv\":{version},\"start\":");
        push_json_string(&mut json, &format!("{slash}{start}"));
        json.push('}');
        base64_url::encode(json.as_bytes())
    }
}

/// Whether Go's `path.Clean` leaves the key as it is, a slash put before it.
fn is_clean(start: &str) -> bool {
    start.is_empty() || start.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

// === impl TokenError ===

impl From<TokenError> for Status {
    fn from(error: TokenError) -> Self {
        Self::bad_request(format!("invalid continue token: continue key is not valid: {error}"))
    }
}
