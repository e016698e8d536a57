//! Shard selectors under arbitrary texts: refusing one is an answer, failing otherwise is not.

use proptest::prelude::*;
use weir_core::HashRange;
use weir_core::shard_selector::ShardSelector;

const WORDS: [&str; 40] = [
    "shardRange(",
    "object.metadata.uid",
    "object.metadata.namespace",
    "'0x0'",
    "'0x8000000000000000'",
    ",",
    ")",
    "(",
    "||",
    " ",
    "&&",
    "!",
    "-",
    "1",
    "1u",
    "0x1",
    "1.5e3",
    ".",
    "a",
    "in",
    "true",
    "null",
    "[",
    "]",
    "{",
    "}",
    ":",
    "?",
    "'",
    "\"\"\"",
    "r'",
    "b'",
    "\\x41",
    "\\",
    "//",
    "\n",
    "`m`",
    "é",
    "\0",
    "namespace",
];

proptest! {
    #[test]
    fn ranges_come_back_in_canonical_form(ranges in prop::collection::vec((any::<u64>(), any::<u64>()), 1..6)) {
        let text = ranges
            .iter()
            .filter(|(a, b)| a != b)
            .map(|(a, b)| format!("shardRange(object.metadata.uid,'{:#x}', '{:#x}')", a.min(b), a.max(b)))
            .collect::<Vec<_>>()
            .join("||");
        prop_assume!(!text.is_empty());
        let selector = ShardSelector::parse(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(ShardSelector::parse(&selector.to_string()), Ok(selector.clone()));
        for (a, b) in ranges {
            let is_wanted = selector.ranges().iter().any(|range| range.contains(a));
            prop_assert_eq!(selector.matches(a), is_wanted);
            prop_assert!(a >= b || selector.matches(a), "a start is inclusive");
        }
        prop_assert!(selector.ranges().iter().all(|range| *range != HashRange::ALL));
    }

    #[test]
    fn no_row_of_words_is_too_strange(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..20)) {
        if let Ok(selector) = ShardSelector::parse(&words.concat()) {
            prop_assert_eq!(ShardSelector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn no_text_is_too_strange(text in any::<String>()) {
        let _ = ShardSelector::parse(&text);
    }
}
