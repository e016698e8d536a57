//! YAML as upstream's encoder writes it: keys in the order of their bytes, lists not indented, long texts folded.

mod scalar;

use super::tree::Node;

/// A whole document.
pub(super) fn of_document(node: &Node<'_>) -> String {
    let mut out = String::new();
    push_block(&mut out, node, 0);
    out
}

/// The lines of a value that starts its own line.
fn push_block(out: &mut String, node: &Node<'_>, indent: usize) {
    match node {
        Node::Map(pairs) if !pairs.is_empty() => {
            let mut pairs: Vec<_> = pairs.iter().collect();
            pairs.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in pairs {
                push_indent(out, indent);
                out.push_str(key);
                out.push(':');
                push_value(out, value, indent);
            }
        }
        Node::List(nodes) if !nodes.is_empty() => {
            for node in nodes {
                // The item's first line stands behind the dash.
                let mut item = String::new();
                push_block(&mut item, node, indent + 2);
                push_indent(out, indent);
                out.push_str("- ");
                out.push_str(item.trim_start_matches(' '));
            }
        }
        Node::Text(_) | Node::Number(_) | Node::Map(_) | Node::List(_) => {
            let start = out.len();
            push_value(out, node, indent);
            out.remove(start);
        }
    }
}

/// What follows a key, to the end of the line or of the block.
fn push_value(out: &mut String, node: &Node<'_>, indent: usize) {
    match node {
        Node::Text(text) => {
            out.push(' ');
            scalar::push(out, text, indent + 2);
            out.push('\n');
        }
        Node::Number(number) => {
            out.push(' ');
            out.push_str(&number.to_string());
            out.push('\n');
        }
        Node::Map(pairs) if pairs.is_empty() => out.push_str(" {}\n"),
        Node::List(nodes) if nodes.is_empty() => out.push_str(" []\n"),
        Node::Map(_) => {
            out.push('\n');
            push_block(out, node, indent + 2);
        }
        Node::List(_) => {
            out.push('\n');
            push_block(out, node, indent);
        }
    }
}

fn push_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}
