//! Reading JSON in place: one position that moves over the text, checks its grammar and allocates nothing. What a
//! reader skips is checked as strictly as what it takes, so a body that was cut or mixed up is noticed wherever the
//! fault is. The one thing looser than in other readers: a lone surrogate escape is U+FFFD, as in Go.

use std::borrow::Cow;

use super::escape::unescape;
use super::special::find_special;
use super::{ScanError, Span, Text};

/// Go's reader stops at the same depth; what upstream sent has passed it.
const MAX_DEPTH: usize = 10_000;

/// A position in JSON text.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// A string as it stands between its quotes.
#[derive(Clone, Copy)]
pub(crate) struct Quoted {
    pub(crate) span: Span,
    has_escapes: bool,
}

/// Which kinds of containers are open, one bit each; no allocation up to a depth of 64.
#[derive(Default)]
struct Open {
    depth: usize,
    top: u64,
    below: Vec<u64>,
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    /// At the start of the text.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, ScanError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(ScanError::TooLong);
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|error| ScanError::NotUtf8 { at: error.valid_up_to() as u32 })?;
        Ok(Self { text, at: 0 })
    }

    /// The offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Skips white space and looks at the next byte.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Result<u8, ScanError> {
        let bytes = self.text.as_bytes();
        match bytes.get(self.at) {
            Some(&byte) if byte > b' ' => return Ok(byte),
            Some(_) => self.at = self.after_space(),
            None => {}
        }
        bytes.get(self.at).copied().ok_or(ScanError::UnexpectedEnd)
    }

    /// Takes the byte if it is next.
    #[inline(always)]
    pub(crate) fn take(&mut self, byte: u8) -> Result<bool, ScanError> {
        let is_next = self.peek()? == byte;
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    /// Takes the byte or fails.
    #[inline(always)]
    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), ScanError> {
        if self.take(byte)? { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Takes the opening brace and says whether a key follows.
    #[inline(always)]
    pub(crate) fn open_object(&mut self) -> Result<bool, ScanError> {
        self.expect(b'{')?;
        Ok(!self.take(b'}')?)
    }

    /// After a value in a container: takes a comma, or the closing byte; says whether more follows.
    #[inline(always)]
    pub(crate) fn more(&mut self, close: u8) -> Result<bool, ScanError> {
        if self.take(b',')? {
            return Ok(true);
        }
        self.expect(close)?;
        Ok(false)
    }

    /// Takes a key and its colon.
    #[inline(always)]
    pub(crate) fn key(&mut self) -> Result<Quoted, ScanError> {
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// Takes a string.
    #[inline(always)]
    pub(crate) fn string(&mut self) -> Result<Quoted, ScanError> {
        self.expect(b'"')?;
        self.rest_of_string()
    }

    /// Takes a string whose opening quote was taken.
    #[inline(always)]
    fn rest_of_string(&mut self) -> Result<Quoted, ScanError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at = find_special(bytes, start).ok_or(ScanError::UnexpectedEnd)?;
        let has_escapes = bytes[self.at] != b'"';
        if has_escapes {
            self.at = self.after_escapes()?;
        }
        let span = Span::new(start, self.at);
        self.at += 1;
        Ok(Quoted { span, has_escapes })
    }

    /// The text of a string, unescaped.
    pub(crate) fn text(&self, quoted: Quoted) -> Text<'a> {
        let raw = &self.text[quoted.span.range()];
        let value = if quoted.has_escapes { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) };
        Text { span: quoted.span, value }
    }

    /// The text that was passed over since `start`.
    pub(crate) fn raw_since(&self, start: usize) -> Text<'a> {
        Text { span: Span::new(start, self.at), value: Cow::Borrowed(&self.text[start..self.at]) }
    }

    /// Takes any value. The position is kept in a copy, which the compiler keeps in a register.
    pub(crate) fn skip_value(&mut self) -> Result<(), ScanError> {
        let mut cursor = *self;
        let mut open = Open::default();
        loop {
            match cursor.peek()? {
                b'"' => {
                    cursor.at += 1;
                    cursor.rest_of_string()?;
                }
                b'{' => {
                    let at = cursor.at;
                    cursor.at += 1;
                    if !cursor.take(b'}')? {
                        open.push(true, at)?;
                        cursor.key()?;
                        continue;
                    }
                }
                b'[' => {
                    let at = cursor.at;
                    cursor.at += 1;
                    if !cursor.take(b']')? {
                        open.push(false, at)?;
                        continue;
                    }
                }
                _ => cursor.at = cursor.scalar_end()?,
            }
            if cursor.close(&mut open)? {
                *self = cursor;
                return Ok(());
            }
        }
    }

    /// Takes a number, `true`, `false` or `null`.
    pub(crate) fn skip_scalar(&mut self) -> Result<(), ScanError> {
        self.at = self.scalar_end()?;
        Ok(())
    }

    /// Makes sure that only white space is left.
    pub(crate) fn end(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            Ok(_) => Err(self.unexpected()),
            Err(_) => Ok(()),
        }
    }

    /// The error for the next byte.
    pub(crate) fn unexpected(&self) -> ScanError {
        ScanError::Unexpected { at: self.at as u32 }
    }

    fn scalar_end(mut self) -> Result<usize, ScanError> {
        match self.peek()? {
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return Err(self.unexpected()),
        }
        Ok(self.at)
    }

    #[cold]
    fn after_space(self) -> usize {
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at + self.text.as_bytes()[self.at..].iter().take_while(is_space).count()
    }

    /// After a value: leaves what closes here, steps to the next value otherwise. Says whether all is closed.
    #[inline(always)]
    fn close(&mut self, open: &mut Open) -> Result<bool, ScanError> {
        while let Some(is_object) = open.innermost() {
            match (self.peek()?, is_object) {
                (b',', true) => {
                    self.at += 1;
                    return self.key().map(|_| false);
                }
                (b',', false) => {
                    self.at += 1;
                    return Ok(false);
                }
                (b'}', true) | (b']', false) => {
                    self.at += 1;
                    open.pop();
                }
                _ => return Err(self.unexpected()),
            }
        }
        Ok(true)
    }

    /// From a backslash to the quote that ends the string.
    fn after_escapes(mut self) -> Result<usize, ScanError> {
        let bytes = self.text.as_bytes();
        loop {
            match bytes[self.at] {
                b'"' => return Ok(self.at),
                b'\\' => self.skip_escape()?,
                _ => return Err(self.unexpected()),
            }
            self.at = find_special(bytes, self.at).ok_or(ScanError::UnexpectedEnd)?;
        }
    }

    /// Takes a backslash and what belongs to it.
    fn skip_escape(&mut self) -> Result<(), ScanError> {
        let bytes = self.text.as_bytes();
        match bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = bytes.get(self.at + 2..self.at + 6).ok_or(ScanError::UnexpectedEnd)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(ScanError::BadEscape { at: self.at as u32 });
                }
                self.at += 6;
            }
            Some(_) => return Err(ScanError::BadEscape { at: self.at as u32 }),
            None => return Err(ScanError::UnexpectedEnd),
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), ScanError> {
        let rest = &self.text.as_bytes()[self.at..];
        if !rest.starts_with(word.as_bytes()) {
            let is_cut = word.as_bytes().starts_with(rest);
            return Err(if is_cut { ScanError::UnexpectedEnd } else { self.unexpected() });
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), ScanError> {
        self.take_raw(b"-");
        if !self.take_raw(b"0") {
            self.digits()?;
        }
        if self.take_raw(b".") {
            self.digits()?;
        }
        if self.take_raw(b"eE") {
            self.take_raw(b"+-");
            self.digits()?;
        }
        Ok(())
    }

    fn take_raw(&mut self, any_of: &[u8]) -> bool {
        let is_next = self.text.as_bytes().get(self.at).is_some_and(|byte| any_of.contains(byte));
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes one digit or more.
    fn digits(&mut self) -> Result<(), ScanError> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(if rest.is_empty() { ScanError::UnexpectedEnd } else { self.unexpected() });
        }
        self.at += count;
        Ok(())
    }
}

// === impl Open ===

impl Open {
    #[inline(always)]
    fn push(&mut self, is_object: bool, at: usize) -> Result<(), ScanError> {
        if self.depth == MAX_DEPTH {
            return Err(ScanError::TooDeep { at: at as u32 });
        }
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.below.push(self.top);
        }
        self.top = self.top << 1 | u64::from(is_object);
        self.depth += 1;
        Ok(())
    }

    #[inline(always)]
    fn pop(&mut self) {
        self.top >>= 1;
        self.depth -= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.top = self.below.pop().expect("a full word was put aside at this depth");
        }
    }

    /// Whether the innermost container is an object; `None` when none is open.
    #[inline(always)]
    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.top & 1 == 1)
    }
}
