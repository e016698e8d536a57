//! From the tree of an expression to ranges. Calls are checked from left to right, each as a whole before the next, and
//! only then whether all hash the same field; that decides which of several faults is told.

use super::cel::{Expr, Literal};
use super::{Bound, ShardField, ShardSelector, ShardSelectorError};
use crate::hash::HashRange;

const MAX_DIGITS: usize = 17;

pub(super) fn walk(expr: &Expr) -> Result<ShardSelector, ShardSelectorError> {
    let mut found = Vec::new();
    collect(expr, &mut found)?;
    let mut fields = found.iter().map(|(field, _)| *field);
    let first = fields.next().ok_or(ShardSelectorError::Empty)?;
    if let Some(other) = fields.find(|field| *field != first) {
        return Err(ShardSelectorError::MixedFields(first, other));
    }
    Ok(ShardSelector { field: first, ranges: found.into_iter().map(|(_, range)| range).collect() })
}

fn collect(expr: &Expr, found: &mut Vec<(ShardField, HashRange)>) -> Result<(), ShardSelectorError> {
    match expr {
        Expr::Or(terms) => terms.iter().try_for_each(|term| collect(term, found)),
        Expr::Call { function, arguments } if function == "shardRange" => {
            found.push(shard_range(arguments)?);
            Ok(())
        }
        Expr::Call { function, .. } => Err(ShardSelectorError::Function(function.clone())),
        Expr::Name(_) | Expr::Member { .. } | Expr::Literal(_) | Expr::List | Expr::Map | Expr::Message => {
            Err(ShardSelectorError::Kind(expr.kind()))
        }
    }
}

fn shard_range(arguments: &[Expr]) -> Result<(ShardField, HashRange), ShardSelectorError> {
    let [field, start, end] = arguments else {
        return Err(ShardSelectorError::Arguments(arguments.len()));
    };
    let path = field.path().map_err(|expr| ShardSelectorError::NoPath(expr.kind()))?;
    let field = [ShardField::Uid, ShardField::Namespace]
        .into_iter()
        .find(|field| field.path() == path)
        .ok_or(ShardSelectorError::Path(path))?;
    let start = bound(Bound::Start, start)?;
    let end = bound(Bound::End, end)?;
    let range = HashRange::new(start, end).map_err(|_| ShardSelectorError::EmptyRange(start, end))?;
    Ok((field, range))
}

fn bound(which: Bound, expr: &Expr) -> Result<u128, ShardSelectorError> {
    let text = match expr {
        Expr::Literal(Literal::Text(text)) => text,
        Expr::Literal(Literal::Other(type_name)) => return Err(ShardSelectorError::NoText(which, type_name)),
        Expr::Or(_)
        | Expr::Call { .. }
        | Expr::Name(_)
        | Expr::Member { .. }
        | Expr::List
        | Expr::Map
        | Expr::Message => return Err(ShardSelectorError::NoLiteral(which, expr.kind())),
    };
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(ShardSelectorError::NoPrefix(which, text.clone()));
    };
    if digits.is_empty() {
        return Err(ShardSelectorError::NoDigits(which));
    }
    if digits.len() > MAX_DIGITS {
        return Err(ShardSelectorError::TooLong(which, digits.to_owned()));
    }
    if let Some(other) = digits.chars().find(|digit| !matches!(digit, '0'..='9' | 'a'..='f')) {
        return Err(ShardSelectorError::Digit(which, other, text.clone()));
    }
    u128::from_str_radix(digits, 16)
        .ok()
        .filter(|number| digits.len() < MAX_DIGITS || *number == HashRange::END)
        .ok_or_else(|| ShardSelectorError::Beyond(which, text.clone()))
}
