//! Finds the end of one JSON value, over as many chunks as it takes and looking at each byte once. It counts braces and
//! brackets without telling them apart; a value that mixes them up ends somewhere else, and its reader refuses it.

use crate::object::scan::find_special;

/// What is known of the value that is being read.
#[derive(Default)]
pub(super) struct Capture {
    length: usize,
    depth: usize,
    inside: Inside,
}

#[derive(Default)]
enum Inside {
    /// Between strings of a container, or before the first byte.
    #[default]
    Plain,
    String,
    /// Right after a backslash.
    Escape,
    /// A number or a word.
    Scalar,
}

// === impl Capture ===

impl Capture {
    /// How many bytes were read.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Reads on. `value` starts at the value's first byte. Says whether the end was found; `None` for a byte that can
    /// stand nowhere in a value.
    pub(super) fn read(&mut self, value: &[u8]) -> Option<bool> {
        while let Some(&byte) = value.get(self.length) {
            match self.inside {
                Inside::Plain => {
                    self.length += 1;
                    match byte {
                        b'"' => self.inside = Inside::String,
                        b'{' | b'[' => self.depth += 1,
                        b'}' | b']' => {
                            self.depth = self.depth.checked_sub(1)?;
                            if self.depth == 0 {
                                return Some(true);
                            }
                        }
                        _ if self.depth == 0 => self.inside = Inside::Scalar,
                        _ => {}
                    }
                }
                Inside::String => {
                    let Some(at) = find_special(value, self.length) else {
                        self.length = value.len();
                        return Some(false);
                    };
                    self.length = at + 1;
                    match value[at] {
                        b'\\' => self.inside = Inside::Escape,
                        b'"' if self.depth == 0 => return Some(true),
                        b'"' => self.inside = Inside::Plain,
                        _ => return None,
                    }
                }
                Inside::Escape => {
                    self.length += 1;
                    self.inside = Inside::String;
                }
                Inside::Scalar => {
                    if !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.') {
                        return Some(true);
                    }
                    self.length += 1;
                }
            }
        }
        Some(false)
    }
}
