//! Continue tokens, as the simulated apiserver writes and reads them.
//!
//! A token is bound to nothing but a revision and a key: not to selectors, a limit or a namespace.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use weir_core::Status;

use crate::json::{Node, object};

const VERSION: &str = "meta.k8s.io/v1";

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// The revision of its chain; negative for the latest.
    pub(crate) rv: i64,
    /// The inclusive start key, without a slash before it.
    pub(crate) start: String,
}

/// The token of a revision (-1: the latest) and an inclusive start key.
pub(crate) fn encode(rv: i64, start: &str) -> String {
    let tree =
        object([("v", Node::from(VERSION)), ("rv", Node::Number(rv.into())), ("start", Node::from(start))]);
    URL_SAFE_NO_PAD.encode(tree.to_text())
}

/// Reads a token.
///
/// # Errors
/// 400 with upstream's words; of JSON's own faults only the class.
pub(crate) fn decode(token: &str) -> Result<Token, Status> {
    read(token).map_err(|why| {
        Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
    })
}

fn read(token: &str) -> Result<Token, String> {
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|error| match error {
        base64::DecodeError::InvalidByte(offset, _) | base64::DecodeError::InvalidLastSymbol(offset, _) => {
            format!("illegal base64 data at input byte {offset}")
        }
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => {
            format!("illegal base64 data at input byte {}", token.len())
        }
    })?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("v") != VERSION {
        return Err(format!("server does not recognize this encoded version {}", text("v")));
    }
    let rv = value.get("rv").and_then(Value::as_i64).unwrap_or(0);
    if rv == 0 {
        return Err(format!("incorrect encoded start resourceVersion (version {VERSION})"));
    }
    let start = text("start");
    if start.is_empty() {
        return Err(format!("encoded start key empty (version {VERSION})"));
    }
    let key = start.strip_prefix('/').unwrap_or(start);
    let is_clean = key.is_empty() || key.split('/').all(|segment| !["", ".", ".."].contains(&segment));
    if !is_clean {
        return Err(start.to_owned());
    }
    Ok(Token { rv, start: key.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_upstreams() {
        let token = encode(1_234, "/default/nginx-0\0");
        let expected =
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIzNCwic3RhcnQiOiIvZGVmYXVsdC9uZ2lueC0wXHUwMDAwIn0";
        assert_eq!(token, expected);
        assert_eq!(decode(&token), Ok(Token { rv: 1_234, start: "default/nginx-0\0".to_owned() }));
    }

    #[test]
    fn broken_tokens_are_refused() {
        for (token, text) in [
            ("!", "illegal base64 data at input byte 0"),
            (&*encode(0, "a"), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
            (&*encode(1, ""), "encoded start key empty (version meta.k8s.io/v1)"),
            (&*encode(1, "a/../b"), "a/../b"),
        ] {
            let status = decode(token).unwrap_err();
            let message = format!("invalid continue token: continue key is not valid: {text}");
            assert_eq!((status.code, &*status.message), (400, &*message));
        }
    }
}
