//! JSON as Go writes it: `<`, `>`, `&` and two line separators are escaped although JSON does not ask for it, since the
//! bytes are compared with upstream's.

use std::fmt::Write;

use super::tree::Node;

const WRITING: &str = "writing to a String cannot fail";

/// Without white space.
pub(super) fn push_compact(out: &mut String, node: &Node<'_>) {
    match node {
        Node::Text(text) => push_json_string(out, text),
        Node::Number(number) => write!(out, "{number}").expect(WRITING),
        Node::List(nodes) => {
            out.push('[');
            for (index, node) in nodes.iter().enumerate() {
                push_if(out, index > 0, ",");
                push_compact(out, node);
            }
            out.push(']');
        }
        Node::Map(pairs) => {
            out.push('{');
            for (index, (key, node)) in pairs.iter().enumerate() {
                push_if(out, index > 0, ",");
                push_json_string(out, key);
                out.push(':');
                push_compact(out, node);
            }
            out.push('}');
        }
    }
}

/// Two blanks deeper for each level; an empty map stays on its line.
pub(super) fn push_pretty(out: &mut String, node: &Node<'_>, level: usize) {
    match node {
        Node::Text(_) | Node::Number(_) => push_compact(out, node),
        Node::List(nodes) => {
            out.push('[');
            for (index, node) in nodes.iter().enumerate() {
                push_line(out, index > 0, level + 1);
                push_pretty(out, node, level + 1);
            }
            close(out, nodes.is_empty(), level, ']');
        }
        Node::Map(pairs) => {
            out.push('{');
            for (index, (key, node)) in pairs.iter().enumerate() {
                push_line(out, index > 0, level + 1);
                push_json_string(out, key);
                out.push_str(": ");
                push_pretty(out, node, level + 1);
            }
            close(out, pairs.is_empty(), level, '}');
        }
    }
}

/// A string with its quotes.
pub(crate) fn push_json_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        let escape = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(character)).expect(WRITING);
                continue;
            }
            _ => {
                out.push(character);
                continue;
            }
        };
        out.push_str(escape);
    }
    out.push('"');
}

fn push_if(out: &mut String, condition: bool, text: &str) {
    if condition {
        out.push_str(text);
    }
}

fn push_line(out: &mut String, after_another: bool, level: usize) {
    push_if(out, after_another, ",");
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", level));
}

fn close(out: &mut String, is_empty: bool, level: usize, bracket: char) {
    if !is_empty {
        push_line(out, false, level);
    }
    out.push(bracket);
}
