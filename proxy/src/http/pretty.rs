//! Indented JSON as upstream writes it for people: two spaces a level, empty objects and lists on one line, no line feed at
//! the end. Works on bytes as they come, so an indented list streams like any other.

use bytes::Bytes;

use super::body::Segments;

/// Indents compact JSON, in pieces cut anywhere.
#[derive(Clone, Debug, Default)]
pub struct Indenter {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// An opening bracket whose content has not begun.
    is_opening: bool,
}

// === impl Indenter ===

impl Indenter {
    /// The next piece, indented.
    pub fn indent(&mut self, segments: &Segments) -> Bytes {
        let mut out = Vec::with_capacity(segments.len() * 3 / 2);
        for byte in segments.parts().flatten() {
            self.write(*byte, &mut out);
        }
        out.into()
    }

    fn write(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.in_string {
            out.push(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        if self.is_opening && !matches!(byte, b'}' | b']') {
            self.depth += 1;
            self.line(out);
            self.is_opening = false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.is_opening = true,
            b'}' | b']' => {
                if self.is_opening {
                    self.is_opening = false;
                } else {
                    self.depth = self.depth.saturating_sub(1);
                    self.line(out);
                }
            }
            b'\n' => return,
            _ => {}
        }
        out.push(byte);
        match byte {
            b',' => self.line(out),
            b':' => out.push(b' '),
            _ => {}
        }
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indents_as_upstream_does_whatever_the_pieces() {
        let compact = r#"{"a":{},"b":[],"c":[1,{"d":"x\"{,:\\"}],"e":null}"#.to_owned() + "\n";
        let indented = "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"x\\\"{,:\\\\\"\n    }\n  ],\n  \"e\": null\n}";
        for size in 1..compact.len() {
            let mut indenter = Indenter::default();
            let pieces =
                compact.as_bytes().chunks(size).map(|piece| Segments::from(Bytes::copy_from_slice(piece)));
            let out: Vec<u8> = pieces.flat_map(|piece| indenter.indent(&piece)).collect();
            assert_eq!(String::from_utf8(out).unwrap(), indented);
        }
    }
}
