//! What a label's key and value may look like, and the API's sentences about those that don't. A key may be wrong in
//! several ways at once; the sentences are then joined.

const MAX_NAME_BYTES: usize = 63;
const MAX_PREFIX_BYTES: usize = 253;
const MAX_VALUE_BYTES: usize = 63;

const EMPTY: &str = "must be non-empty";
const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const PREFIX: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// All faults of a label's key, `; ` between them.
pub(super) fn check_key(key: &str) -> Result<(), String> {
    let mut parts = key.split('/');
    let faults = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, None) => name_faults(name),
        (Some(prefix), Some(name), None) => [prefix_faults(prefix), name_faults(name)].concat(),
        (first, second, third) => {
            debug_assert!(
                first.is_some() && second.is_some() && third.is_some(),
                "split yields at least one part"
            );
            vec![format!(
                "a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )]
        }
    };
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// All faults of a label's value, `; ` between them.
pub(super) fn check_value(value: &str) -> Result<(), String> {
    let mut faults = Vec::new();
    if value.len() > MAX_VALUE_BYTES {
        faults.push(too_long(MAX_VALUE_BYTES));
    }
    if !value.is_empty() && !is_word(value) {
        faults.push(VALUE.to_owned());
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

fn prefix_faults(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec![format!("prefix part {EMPTY}")];
    }
    let mut faults = Vec::new();
    if prefix.len() > MAX_PREFIX_BYTES {
        faults.push(format!("prefix part {}", too_long(MAX_PREFIX_BYTES)));
    }
    if !prefix.split('.').all(is_dns_label) {
        faults.push(format!("prefix part {PREFIX}"));
    }
    faults
}

fn name_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.is_empty() {
        faults.push(format!("name part {EMPTY}"));
    } else if name.len() > MAX_NAME_BYTES {
        faults.push(format!("name part {}", too_long(MAX_NAME_BYTES)));
    }
    if !is_word(name) {
        faults.push(format!("name part {NAME}"));
    }
    faults
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

/// Letters, digits, `-`, `_`, `.`; at both ends a letter or digit.
fn is_word(text: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Lower-case letters, digits and `-`; at both ends a letter or digit.
fn is_dns_label(text: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(is_alphanumeric)
        && bytes.last().is_some_and(is_alphanumeric)
        && bytes.iter().all(|byte| is_alphanumeric(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_are_told() {
        assert_eq!(
            check_key("/").unwrap_err(),
            format!("prefix part {EMPTY}; name part {EMPTY}; name part {NAME}")
        );
        let long = "a".repeat(64);
        assert_eq!(check_key(&long).unwrap_err(), "name part must be no more than 63 bytes");
        assert_eq!(
            check_value(&format!("{long}-")).unwrap_err(),
            format!("must be no more than 63 bytes; {VALUE}")
        );
        assert!(
            check_key(&format!("{}/a", vec!["a"; 128].join(".")))
                .unwrap_err()
                .starts_with("prefix part must be no more")
        );
    }

    #[test]
    fn good_ones_pass() {
        for key in ["a", "A_b.c-9", "example.com/Name", "0.1-a/x"] {
            assert_eq!(check_key(key), Ok(()));
        }
        for value in ["", "a", "a_B.c"] {
            assert_eq!(check_value(value), Ok(()));
        }
        assert!(check_value("a.").is_err() && check_value("é").is_err());
    }
}
