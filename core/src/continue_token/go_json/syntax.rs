//! The grammar of JSON with the words that Go's scanner has for each way to break it. It keeps its own stack: a client
//! may nest as deep as it likes.

use super::GoJsonError;
use crate::go_text;

/// Go's limit of open braces and brackets.
const MAX_DEPTH: usize = 10_000;

const VALUE: &str = "looking for beginning of value";
const KEY: &str = "looking for beginning of object key string";

/// The letters after the first one, each with what is said where it is missing.
const TRUE: [(u8, &str); 3] = [
    (b'r', "in literal true (expecting 'r')"),
    (b'u', "in literal true (expecting 'u')"),
    (b'e', "in literal true (expecting 'e')"),
];
const FALSE: [(u8, &str); 4] = [
    (b'a', "in literal false (expecting 'a')"),
    (b'l', "in literal false (expecting 'l')"),
    (b's', "in literal false (expecting 's')"),
    (b'e', "in literal false (expecting 'e')"),
];
const NULL: [(u8, &str); 3] = [
    (b'u', "in literal null (expecting 'u')"),
    (b'l', "in literal null (expecting 'l')"),
    (b'l', "in literal null (expecting 'l')"),
];

struct Checker<'a> {
    bytes: &'a [u8],
    at: usize,
    /// For each open container, whether it is an object.
    open: Vec<bool>,
}

/// Checks one value with nothing but white space around it.
pub(in super::super) fn check(bytes: &[u8]) -> Result<(), GoJsonError> {
    let mut checker = Checker { bytes, at: 0, open: Vec::new() };
    loop {
        checker.value()?;
        if checker.after_value()? {
            return Ok(());
        }
    }
}

/// A byte as Go quotes it: read as Latin-1.
pub(super) fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = go_text::quote(char::from(byte).encode_utf8(&mut [0; 4]));
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

// === impl Checker ===

impl Checker<'_> {
    /// Up to the end of the next scalar or empty container.
    fn value(&mut self) -> Result<(), GoJsonError> {
        loop {
            match self.next()? {
                b'{' => {
                    self.push(true)?;
                    if self.peek()? == b'}' {
                        return Ok(());
                    }
                    self.key()?;
                }
                b'[' => {
                    self.push(false)?;
                    if self.peek()? == b']' {
                        return Ok(());
                    }
                }
                b'"' => return self.string(),
                b'-' => return self.number(),
                b'0'..=b'9' => {
                    self.at -= 1;
                    return self.number();
                }
                b't' => return self.word(&TRUE),
                b'f' => return self.word(&FALSE),
                b'n' => return self.word(&NULL),
                byte => return Err(GoJsonError::Byte { byte, context: VALUE }),
            }
        }
    }

    /// Closes what closes; says whether the whole value is complete. Otherwise another value follows.
    fn after_value(&mut self) -> Result<bool, GoJsonError> {
        while let Some(&is_object) = self.open.last() {
            let (close, context) =
                if is_object { (b'}', "after object key:value pair") } else { (b']', "after array element") };
            match self.next()? {
                b',' if is_object => return self.key().map(|()| false),
                b',' => return Ok(false),
                byte if byte == close => drop(self.open.pop()),
                byte => return Err(GoJsonError::Byte { byte, context }),
            }
        }
        match self.peek() {
            Ok(byte) => Err(GoJsonError::Byte { byte, context: "after top-level value" }),
            Err(_) => Ok(true),
        }
    }

    fn key(&mut self) -> Result<(), GoJsonError> {
        self.expect(b'"', KEY)?;
        self.string()?;
        self.expect(b':', "after object key")
    }

    /// The rest of a string.
    fn string(&mut self) -> Result<(), GoJsonError> {
        loop {
            let byte = *self.bytes.get(self.at).ok_or(GoJsonError::End)?;
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                0..b' ' => return Err(GoJsonError::Byte { byte, context: "in string literal" }),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), GoJsonError> {
        let byte = self.raw();
        match byte {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => (0..4).try_for_each(|_| {
                let context = "in \\u hexadecimal character escape";
                let byte = self.raw();
                if byte.is_ascii_hexdigit() { Ok(()) } else { Err(GoJsonError::Byte { byte, context }) }
            }),
            byte => Err(GoJsonError::Byte { byte, context: "in string escape code" }),
        }
    }

    /// What follows the sign.
    fn number(&mut self) -> Result<(), GoJsonError> {
        match self.raw() {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            byte => return Err(GoJsonError::Byte { byte, context: "in numeric literal" }),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn some_digits(&mut self, context: &'static str) -> Result<(), GoJsonError> {
        let byte = self.raw();
        if !byte.is_ascii_digit() {
            return Err(GoJsonError::Byte { byte, context });
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        self.at += self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    }

    /// The rest of a word whose first letter was read.
    fn word(&mut self, letters: &[(u8, &'static str)]) -> Result<(), GoJsonError> {
        letters.iter().try_for_each(|&(wanted, context)| {
            let byte = self.raw();
            if byte == wanted { Ok(()) } else { Err(GoJsonError::Byte { byte, context }) }
        })
    }

    fn push(&mut self, is_object: bool) -> Result<(), GoJsonError> {
        self.open.push(is_object);
        if self.open.len() <= MAX_DEPTH {
            return Ok(());
        }
        let byte = if is_object { b'{' } else { b'[' };
        Err(GoJsonError::Byte { byte, context: "exceeded max depth" })
    }

    fn expect(&mut self, wanted: u8, context: &'static str) -> Result<(), GoJsonError> {
        let byte = self.next()?;
        if byte == wanted { Ok(()) } else { Err(GoJsonError::Byte { byte, context }) }
    }

    /// Takes the next byte that is not white space.
    fn next(&mut self) -> Result<u8, GoJsonError> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    fn peek(&mut self) -> Result<u8, GoJsonError> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(&byte) => return Ok(byte),
                None => return Err(GoJsonError::End),
            }
        }
    }

    /// Takes the next byte, white space or not. Go tries a blank where the text has ended.
    fn raw(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(b' ');
        self.at += 1;
        byte
    }
}
