//! How a text stands in YAML: bare where nothing could take it for anything else, in single quotes where an indicator is
//! in the way, in double quotes where it would be read as a number, word or date or holds what cannot be written, as a
//! block where it has lines.

use std::fmt::Write;

/// Words that are values of their own. The encoder also fears the old spellings of booleans.
const WORDS: [&str; 33] = [
    "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON",
    "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", ".nan", ".NaN", ".NAN",
    ".inf", ".Inf", ".INF",
];

/// Lines are broken at the first blank past this column.
const WIDTH: usize = 80;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// Writes a text behind a key; `indent` is that of the lines that may follow.
pub(super) fn push(out: &mut String, text: &str, indent: usize) {
    match style(text) {
        Style::Plain => push_folded(out, text, indent, Style::Plain),
        Style::Single => {
            out.push('\'');
            push_folded(out, text, indent, Style::Single);
            out.push('\'');
        }
        Style::Double => push_double(out, text, indent),
        Style::Literal => push_literal(out, text, indent),
    }
}

fn style(text: &str) -> Style {
    let traits = Traits::of(text);
    let has_bad_break = traits.has_special || traits.has_blank_before_break;
    if text.contains('\n') {
        return if has_bad_break || text.ends_with(' ') { Style::Double } else { Style::Literal };
    }
    if has_bad_break || traits.has_break_before_blank || is_value(text) {
        return Style::Double;
    }
    let has_blank_end = text.starts_with(' ') || text.ends_with(' ');
    if traits.has_break || traits.has_indicator || has_blank_end { Style::Single } else { Style::Plain }
}

/// What stands in the way of a style.
struct Traits {
    has_special: bool,
    has_break: bool,
    has_indicator: bool,
    has_blank_before_break: bool,
    has_break_before_blank: bool,
}

// === impl Traits ===

impl Traits {
    fn of(text: &str) -> Self {
        let is_blank = |character: Option<char>| {
            character.is_none_or(|next| next == ' ' || next == '\t' || is_break(next))
        };
        let mut traits = Self {
            has_special: false,
            has_break: false,
            has_indicator: text.starts_with("---") || text.starts_with("..."),
            has_blank_before_break: false,
            has_break_before_blank: false,
        };
        let mut previous = None;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let before_blank = is_blank(characters.peek().copied());
            traits.has_special |= !is_printable(character);
            traits.has_break |= is_break(character);
            traits.has_blank_before_break |= is_break(character) && previous == Some(' ');
            traits.has_break_before_blank |= character == ' ' && previous.is_some_and(is_break);
            traits.has_indicator |= match (character, previous) {
                (':', _) => before_blank,
                ('?' | '-', None) => before_blank,
                ('#', _) => is_blank(previous),
                (
                    ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`',
                    None,
                ) => true,
                _ => false,
            };
            previous = Some(character);
        }
        traits
    }
}

fn is_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What the encoder writes as it is; it escapes everything beyond the first plane.
fn is_printable(character: char) -> bool {
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// Whether a reader would take the bare text for something else than text.
fn is_value(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number_like = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    WORDS.contains(&text)
        || matches!(unsigned, ".inf" | ".Inf" | ".INF")
        || (is_number_like && (is_integer(unsigned) || is_float(text) || is_sexagesimal(unsigned)))
        || is_date(text)
}

fn is_integer(unsigned: &str) -> bool {
    let digits = unsigned.replace('_', "");
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits.as_str()),
    };
    !digits.starts_with('+') && u64::from_str_radix(digits, radix).is_ok()
}

fn is_float(text: &str) -> bool {
    // Behind a leading point, `_` counts only between two digits.
    let is_separator = |window: &[u8]| window[0].is_ascii_digit() && window[2].is_ascii_digit();
    let are_separators = text.as_bytes().windows(3).filter(|window| window[1] == b'_').all(is_separator);
    if text.starts_with('.') && (!are_separators || text.ends_with('_')) {
        return false;
    }
    let text = text.replace('_', "");
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let is_plain = unsigned
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    is_plain && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Numbers to the base 60, which old readers know: `1:30`.
fn is_sexagesimal(unsigned: &str) -> bool {
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let rest: Vec<&str> = parts.collect();
    let Some((last, middle)) = rest.split_last() else { return false };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    let is_sixtieth = |text: &str| match text.as_bytes() {
        [b'0'..=b'5', second] => second.is_ascii_digit(),
        [only] => only.is_ascii_digit(),
        _ => false,
    };
    first.starts_with(|first: char| first.is_ascii_digit())
        && is_digits(first)
        && middle.iter().all(|text| is_sixtieth(text))
        && is_sixtieth(last)
        && is_digits(fraction)
}

/// A date, with or without a time of day.
fn is_date(text: &str) -> bool {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some((&text[at..=at], &text[at + 1..]))),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let (Some(year), Some(month), Some(day), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let number = |text: &str| {
        text.parse::<u32>().ok().filter(|_| matches!(text.len(), 1 | 2) && !text.starts_with('+'))
    };
    let is_year = year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    let (Some(month), Some(day)) = (number(month), number(day)) else { return false };
    let is_leap = year.parse::<u32>().is_ok_and(|year| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    let most = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    is_year && (1..=most).contains(&day) && time.is_none_or(|(mark, time)| is_time(time, mark != " "))
}

/// `15:4:5.9`, and a zone where the date is joined by a letter.
fn is_time(text: &str, has_zone: bool) -> bool {
    let (clock, is_zone) = if !has_zone {
        (text, true)
    } else if let Some(clock) = text.strip_suffix('Z') {
        (clock, true)
    } else if let Some(at) = text.rfind(['+', '-']) {
        let zone = &text.as_bytes()[at + 1..];
        (&text[..at], matches!(zone, [a, b, b':', c, d] if [a, b, c, d].into_iter().all(u8::is_ascii_digit)))
    } else {
        return false;
    };
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, "0"));
    let parts: Vec<&str> = clock.split(':').collect();
    let is_below = |text: &str, limit: u32| {
        matches!(text.len(), 1 | 2)
            && !text.starts_with('+')
            && text.parse::<u32>().is_ok_and(|number| number < limit)
    };
    let is_clock = matches!(parts[..], [hour, minute, second] if is_below(hour, 24) && is_below(minute, 60) && is_below(second, 60));
    is_zone && is_clock && !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// The column that the next character of the text will stand in.
fn column(out: &str) -> usize {
    out.rsplit('\n').next().unwrap_or_default().chars().count()
}

/// Bare or in single quotes, broken at single blanks once the line is long.
fn push_folded(out: &mut String, text: &str, indent: usize, style: Style) {
    let mut column = column(out);
    let mut previous = None;
    let mut characters = text.chars().enumerate().peekable();
    while let Some((index, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let may_break = style == Style::Plain || (index > 0 && next.is_some());
        if character == ' ' && may_break && previous != Some(' ') && column > WIDTH && next != Some(' ') {
            push_line(out, indent);
            column = indent;
        } else if is_break(character) {
            out.push(character);
            column = 0;
        } else {
            if previous.is_some_and(is_break) {
                push_blanks(out, indent);
                column = indent;
            }
            if character == '\'' && style == Style::Single {
                out.push('\'');
                column += 1;
            }
            out.push(character);
            column += 1;
        }
        previous = Some(character);
    }
}

fn push_double(out: &mut String, text: &str, indent: usize) {
    out.push('"');
    let mut line = column(out);
    let mut after_blank = false;
    let mut characters = text.chars().enumerate().peekable();
    while let Some((index, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let start = out.len();
        if character == ' ' && index > 0 && next.is_some() && !after_blank && line > WIDTH {
            push_line(out, indent);
            line = indent;
            if next == Some(' ') {
                out.push('\\');
                line += 1;
            }
        } else {
            push_escaped(out, character);
            line += out[start..].chars().count();
        }
        after_blank = character == ' ';
    }
    out.push('"');
}

fn push_escaped(out: &mut String, character: char) {
    let letter = match character {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ if is_printable(character) => return out.push(character),
        _ => {
            let code = u32::from(character);
            let written = match code {
                0..=0xff => write!(out, "\\x{code:02X}"),
                0x100..=0xffff => write!(out, "\\u{code:04X}"),
                _ => write!(out, "\\U{code:08X}"),
            };
            return written.expect("writing to a String cannot fail");
        }
    };
    out.extend(['\\', letter]);
}

/// Line by line; the mark says what to do with line breaks at the end.
fn push_literal(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    if text.starts_with(|first| first == ' ' || is_break(first)) {
        out.push('2');
    }
    let mut from_end = text.chars().rev();
    match (from_end.next().is_some_and(is_break), from_end.next().is_none_or(is_break)) {
        (false, _) => out.push('-'),
        (true, true) => out.push('+'),
        (true, false) => {}
    }
    out.push('\n');
    let mut at_start = true;
    for character in text.strip_suffix('\n').unwrap_or(text).chars() {
        if at_start && !is_break(character) {
            push_blanks(out, indent);
        }
        out.push(character);
        at_start = is_break(character);
    }
}

fn push_line(out: &mut String, indent: usize) {
    out.push('\n');
    push_blanks(out, indent);
}

fn push_blanks(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}
