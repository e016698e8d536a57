//! Reads the JSON inside a token as Go's `encoding/json` does: keys without regard to case, unknown ones ignored, `null`
//! for nothing said, the last of repeated keys. Its errors are Go's, since clients see them. The grammar is checked
//! first and over the whole text: a syntax error wins over a wrong type that stands before it.

mod syntax;

use crate::object::scan::{Cursor, ScanError};
pub(super) use syntax::check;

/// Why Go would not read the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoJsonError {
    /// The text stops too early.
    #[error("unexpected end of JSON input")]
    End,
    /// A byte that does not fit.
    #[error("invalid character {} {context}", syntax::quote_byte(*byte))]
    Byte {
        /// The byte; blank where the text ends within a word, number or escape.
        byte: u8,
        /// Where it stands.
        context: &'static str,
    },
    /// The value is no object.
    #[error("json: cannot unmarshal {found} into Go value of type storage.continueToken")]
    NoObject {
        /// What it is.
        found: &'static str,
    },
    /// A field has another type.
    #[error("json: cannot unmarshal {found} into Go struct field continueToken.{field} of type {wanted}")]
    FieldType {
        /// What it is, with the number where it is one that does not fit.
        found: String,
        /// Which field.
        field: &'static str,
        /// Go's name of the type that it should have.
        wanted: &'static str,
    },
}

/// The fields of a token; what is missing is empty or 0.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) format: String,
    pub(super) rv: i64,
    pub(super) start: String,
}

// === impl Fields ===

impl Fields {
    pub(super) fn read(json: &[u8]) -> Result<Self, GoJsonError> {
        check(json)?;
        // Only strings can hold foreign bytes now, and Go replaces them too.
        let text = String::from_utf8_lossy(json);
        let mut cursor = Cursor::new(text.as_bytes()).map_err(|_| GoJsonError::End)?;
        let mut fields = Self::default();
        let mut first_fault = None;
        match kind(cursor.peek().map_err(|_| GoJsonError::End)?) {
            "object" => fields.read_object(&mut cursor, &mut first_fault).map_err(|_| GoJsonError::End)?,
            "null" => {}
            found => return Err(GoJsonError::NoObject { found }),
        }
        first_fault.map_or(Ok(fields), Err)
    }

    /// Goes on after a field of the wrong type, as Go does; the first one is the error in the end.
    fn read_object(
        &mut self,
        cursor: &mut Cursor<'_>,
        fault: &mut Option<GoJsonError>,
    ) -> Result<(), ScanError> {
        let mut has_more = cursor.open_object()?;
        while has_more {
            let key = cursor.key()?;
            let key = folded(&cursor.text(key).value);
            let found = kind(cursor.peek()?);
            let result = match key.as_str() {
                "v" => read_text(cursor, found, "v")?.map(|text| assign(&mut self.format, text)),
                "start" => read_text(cursor, found, "start")?.map(|text| assign(&mut self.start, text)),
                "rv" => read_number(cursor, found)?.map(|number| assign(&mut self.rv, number)),
                _ => {
                    cursor.skip_value()?;
                    Ok(())
                }
            };
            *fault = fault.take().or(result.err());
            has_more = cursor.more(b'}')?;
        }
        Ok(())
    }
}

/// `None` for null: the field keeps what it has.
fn read_text(
    cursor: &mut Cursor<'_>,
    found: &'static str,
    field: &'static str,
) -> Result<Result<Option<String>, GoJsonError>, ScanError> {
    if found == "string" {
        let quoted = cursor.string()?;
        return Ok(Ok(Some(cursor.text(quoted).value.into_owned())));
    }
    cursor.skip_value()?;
    if found == "null" {
        return Ok(Ok(None));
    }
    Ok(Err(GoJsonError::FieldType { found: found.to_owned(), field, wanted: "string" }))
}

fn read_number(
    cursor: &mut Cursor<'_>,
    found: &'static str,
) -> Result<Result<Option<i64>, GoJsonError>, ScanError> {
    let start = cursor.at();
    cursor.skip_value()?;
    let raw = cursor.raw_since(start).value;
    let found = match (found, raw.parse()) {
        ("null", _) => return Ok(Ok(None)),
        ("number", Ok(number)) => return Ok(Ok(Some(number))),
        ("number", Err(_)) => format!("number {raw}"),
        _ => found.to_owned(),
    };
    Ok(Err(GoJsonError::FieldType { found, field: "rv", wanted: "int64" }))
}

fn assign<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Go's name for the kind of value that starts with this byte.
fn kind(first: u8) -> &'static str {
    match first {
        b'{' => "object",
        b'[' => "array",
        b'"' => "string",
        b't' | b'f' => "bool",
        b'n' => "null",
        _ => "number",
    }
}

/// The key in lower case; two letters outside ASCII are the same as ones inside, up to case.
fn folded(key: &str) -> String {
    let fold = |character: char| match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    key.chars().map(fold).collect()
}
