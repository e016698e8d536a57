//! Label selectors: their canonical form, what they hold for, and that no text makes the parser fail badly. The refusals
//! are among the recorded answers for options.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_core::selector::{LabelOperator, LabelSelector};

type Labels = BTreeMap<String, String>;

/// A requirement as a client might write it.
#[derive(Clone, Debug)]
enum Wish {
    Present,
    Absent,
    Equal(&'static str, String),
    Unequal(String),
    Among(Vec<String>),
    NotAmong(Vec<String>),
    Above(u8),
    Below(u8),
}

fn write((key, wish): &(String, Wish)) -> String {
    match wish {
        Wish::Present => key.clone(),
        Wish::Absent => format!("! {key}"),
        Wish::Equal(sign, value) => format!("{key} {sign}{value}"),
        Wish::Unequal(value) => format!("{key}!= {value}"),
        Wish::Among(values) => format!("{key} in ({})", values.join(" , ")),
        Wish::NotAmong(values) => format!("{key}\tnotin({})", values.join(",")),
        Wish::Above(bound) => format!("{key}>{bound}"),
        Wish::Below(bound) => format!("{key} < {bound}"),
    }
}

fn is_granted((key, wish): &(String, Wish), labels: &Labels) -> bool {
    let value = labels.get(key);
    let number = value.and_then(|value| value.parse::<i64>().ok());
    match wish {
        Wish::Present => value.is_some(),
        Wish::Absent => value.is_none(),
        Wish::Equal(_, wanted) => value == Some(wanted),
        Wish::Unequal(wanted) => value != Some(wanted),
        Wish::Among(wanted) => value.is_some_and(|value| wanted.contains(value)),
        Wish::NotAmong(wanted) => value.is_none_or(|value| !wanted.contains(value)),
        Wish::Above(bound) => number.is_some_and(|number| number > i64::from(*bound)),
        Wish::Below(bound) => number.is_some_and(|number| number < i64::from(*bound)),
    }
}

fn keys() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "in", "notin", "example.com/a"]).prop_map(str::to_owned)
}

fn values() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "B-c.d_e", "in", "1", "10", "200", "007"]).prop_map(str::to_owned)
}

fn wishes() -> impl Strategy<Value = Wish> {
    let lists = || prop::collection::vec(values(), 1..4);
    prop_oneof![
        Just(Wish::Present),
        Just(Wish::Absent),
        (prop::sample::select(vec!["=", "=="]), values()).prop_map(|(sign, value)| Wish::Equal(sign, value)),
        values().prop_map(Wish::Unequal),
        lists().prop_map(Wish::Among),
        lists().prop_map(Wish::NotAmong),
        any::<u8>().prop_map(Wish::Above),
        any::<u8>().prop_map(Wish::Below),
    ]
}

fn canonical(text: &str) -> String {
    LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
}

#[test]
fn spellings_of_one_wish_are_one_selector() {
    for (text, wanted) in [
        (" \t\r\n", ""),
        ("b , a", "a,b"),
        ("a==x", "a=x"),
        ("a in (x)", "a=x"),
        ("a notin (x)", "a!=x"),
        ("a in ()", "a="),
        ("a in (x,,x,b)", "a in (,b,x)"),
        ("a=x,a in (x)", "a=x"),
        ("!in,notin", "!in,notin"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("a>007", "a>7"),
        ("a\0=\0b\0", "a=b"),
        ("a \0,,,", "a"),
    ] {
        assert_eq!(canonical(text), wanted, "{text:?}");
    }
    assert!(LabelSelector::parse(" ").unwrap().is_everything());
    assert!(!LabelSelector::parse("a").unwrap().is_everything());
}

#[test]
fn faults_of_several_values_are_told_together() {
    let text = LabelSelector::parse("a in (-b,-a)").unwrap_err().to_string();
    assert!(
        text.starts_with("unable to parse requirement: [values[0][a]: Invalid value: \"-a\": a valid label")
    );
    assert!(text.contains(", values[1][a]: Invalid value: \"-b\": a valid label") && text.ends_with(']'));
    let text = LabelSelector::parse("a>-x").unwrap_err().to_string();
    assert!(text.contains("must be an integer, values[0][a]: Invalid value: \"-x\""), "{text}");
}

#[test]
fn requirements_are_data() {
    let selector = LabelSelector::parse("b in (y,x),a=1,c>5").unwrap();
    let found: Vec<_> =
        selector.requirements().iter().map(|one| (one.key(), one.operator().clone())).collect();
    assert_eq!(
        found,
        [
            ("a", LabelOperator::In(vec!["1".into()])),
            ("b", LabelOperator::In(vec!["x".into(), "y".into()])),
            ("c", LabelOperator::GreaterThan(5)),
        ]
    );
    assert_eq!((selector.exact("a"), selector.exact("b"), selector.exact("c")), (Some("1"), None, None));
}

proptest! {
    #[test]
    fn holds_for_what_was_wished(
        wished in prop::collection::vec((keys(), wishes()), 0..5),
        labels in prop::collection::btree_map(keys(), values(), 0..5),
    ) {
        let text = wished.iter().map(write).collect::<Vec<_>>().join(",");
        let selector = LabelSelector::parse(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        let is_granted = wished.iter().all(|wish| is_granted(wish, &labels));
        prop_assert_eq!(selector.matches(|key| labels.get(key).map(String::as_str)), is_granted, "{}", text);
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn no_text_is_too_strange(text in "[ab/(),=!<>inot \\t\0é'-]{0,20}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn nor_is_any_other(text in any::<String>()) {
        let _ = LabelSelector::parse(&text);
    }
}
