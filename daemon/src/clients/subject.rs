//! The subject of a certificate as DER holds it: a sequence of sets of pairs of an object identifier and a text. A crate for
//! the whole of X.509 was the other way; the rest of the certificate is read by webpki.
//!
//! What Go's reader refuses, kube-apiserver refuses with it, so what is not read here is no text that a server of Go would
//! have read otherwise: forms of text that nobody writes since 1999 (T61String, BMPString) make a subject unreadable.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8: u8 = 0x0c;
const NUMERIC: u8 = 0x12;
const PRINTABLE: u8 = 0x13;
const IA5: u8 = 0x16;

/// Whose certificate it is: attributes in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subject(Vec<(Vec<u8>, String)>);

// === impl Subject ===

impl Subject {
    /// What stands in the subject's outer sequence; `None` if it is malformed or of an unusual form.
    pub(super) fn read(mut sets: &[u8]) -> Option<Self> {
        let mut attributes = Vec::new();
        while !sets.is_empty() {
            let mut set;
            (set, sets) = element(sets, SET)?;
            while !set.is_empty() {
                let pair;
                (pair, set) = element(set, SEQUENCE)?;
                let (name, value) = element(pair, OBJECT_IDENTIFIER)?;
                attributes.push((name.to_vec(), text(value)?));
            }
        }
        Some(Self(attributes))
    }

    /// The values of an attribute, whose object identifier is written as in DER.
    pub fn values(&self, name: &[u8]) -> impl DoubleEndedIterator<Item = &str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl FromIterator<(Vec<u8>, String)> for Subject {
    /// Attributes by their object identifiers.
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, String)>>(attributes: I) -> Self {
        Self(attributes.into_iter().collect())
    }
}

/// The content of the element at the beginning, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any_element(bytes)?;
    (found == tag).then_some((content, rest))
}

fn any_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, bytes) = bytes.split_first()?;
    let (length, bytes) = match first {
        0..=0x7f => (usize::from(first), bytes),
        // The shortest form is the only one.
        0x81 => {
            let (&length, bytes) = bytes.split_first()?;
            (usize::from(length).checked_sub(0x80)? + 0x80, bytes)
        }
        0x82 => {
            let (length, bytes) = bytes.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)).checked_sub(0x100)? + 0x100, bytes)
        }
        // No end, or one beyond 64 KiB.
        _ => return None,
    };
    let (content, rest) = bytes.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The one element that these bytes are, as a text.
fn text(bytes: &[u8]) -> Option<String> {
    let (tag, content, rest) = any_element(bytes)?;
    let is_of_form = match tag {
        UTF8 => true,
        NUMERIC => content.iter().all(|byte| byte.is_ascii_digit() || *byte == b' '),
        PRINTABLE => content.iter().all(|byte| is_printable(*byte)),
        IA5 => content.is_ascii(),
        _ => false,
    };
    if !is_of_form || !rest.is_empty() {
        return None;
    }
    String::from_utf8(content.to_vec()).ok()
}

/// The letters of a PrintableString, and two that are written into one all the same, which Go takes.
fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CN: &[u8] = &[0x55, 4, 3];
    const O: &[u8] = &[0x55, 4, 10];

    fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = match content.len() {
            short @ 0..0x80 => vec![u8::try_from(short).unwrap()],
            middle @ 0x80..0x100 => vec![0x81, u8::try_from(middle).unwrap()],
            long => [&[0x82], &u16::try_from(long).unwrap().to_be_bytes()[..]].concat(),
        };
        [&[tag], &length[..], content].concat()
    }

    fn pair(name: &[u8], (tag, text): (u8, &[u8])) -> Vec<u8> {
        wrap(SEQUENCE, &[wrap(OBJECT_IDENTIFIER, name), wrap(tag, text)].concat())
    }

    fn values(subject: &Subject, name: &[u8]) -> Vec<String> {
        subject.values(name).map(str::to_owned).collect()
    }

    #[test]
    fn attributes_are_read_in_their_order_in_every_common_form() {
        let long = "x".repeat(300);
        let both = [pair(O, (IA5, b"a@b")), pair(CN, (PRINTABLE, b"system:node:*"))].concat();
        let sets = [
            wrap(SET, &pair(O, (UTF8, "größe".as_bytes()))),
            wrap(SET, &both),
            wrap(SET, &pair(O, (NUMERIC, b"12 3"))),
            wrap(SET, &pair(O, (UTF8, long.as_bytes()))),
        ];
        let subject = Subject::read(&sets.concat()).unwrap();
        assert_eq!(values(&subject, CN), ["system:node:*"]);
        assert_eq!(values(&subject, O), ["größe", "a@b", "12 3", &long]);
        assert_eq!(values(&subject, &[0x55, 4, 11]), [] as [&str; 0]);
        assert_eq!(Subject::read(&[]), Some(Subject::default()));
    }

    #[test]
    fn what_is_malformed_or_unusual_is_no_subject() {
        let good = wrap(SET, &pair(CN, (UTF8, b"bob")));
        for end in 1..good.len() {
            assert_eq!(Subject::read(&good[..end]), None, "cut at {end}");
        }
        for text in [
            (UTF8, &b"\xff"[..]),
            (IA5, "ö".as_bytes()),
            (PRINTABLE, b"a@b"),
            (NUMERIC, b"1a"),
            (0x14, b"T61"),
            (0x1e, b"\0b"),
        ] {
            assert_eq!(Subject::read(&wrap(SET, &pair(CN, text))), None, "{text:?}");
        }
        let trailing = [pair(CN, (UTF8, b"bob")), vec![0]].concat();
        assert_eq!(Subject::read(&wrap(SET, &trailing)), None);
        // A length that could be written shorter, one without an end, and one beyond all bounds.
        for length in [&[0x81, 3][..], &[0x82, 0, 3], &[0x80], &[0x84, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(Subject::read(&[&[SET], length, &good].concat()), None, "{length:?}");
        }
    }
}
