//! Bytes of every message, kept as files. Older and newer processes work side by side, so these bytes mean the same for
//! ever; where one differs the wire has changed. Messages that are new are recorded by
//! `WEIR_RECORD=1 cargo test -p weir-proto --test wire a_message_has_the_bytes`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::kinds::Any;
use crate::samples::files;

const RECORD: &str = "the top of golden.rs says how new messages are recorded";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The kept messages: the kind and the bytes of each.
pub(crate) fn kept() -> Vec<(String, Vec<u8>)> {
    let mut kept: Vec<_> = fs::read_dir(golden())
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
        })
        .collect();
    kept.sort();
    assert!(!kept.is_empty(), "{RECORD}");
    kept
}

/// The kind that a file is of.
pub(crate) fn kind(name: &str) -> &str {
    name.split('.').next().unwrap()
}

#[test]
fn every_sample_is_kept_and_every_kept_message_is_a_sample() {
    let kept: BTreeSet<String> = kept().into_iter().map(|(name, _)| name).collect();
    let samples: BTreeSet<String> = files().into_iter().map(|(name, _)| name).collect();
    assert_eq!(kept, samples, "{RECORD}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the switch for recording")]
fn a_message_has_the_bytes_that_it_always_had() {
    let records = env::var("WEIR_RECORD").is_ok();
    for (name, sample) in files() {
        if records {
            fs::write(golden().join(&name), sample.encode()).unwrap();
        }
        let kept = fs::read(golden().join(&name)).unwrap();
        assert_eq!(sample.encode(), kept, "{name}: older processes read these bytes");
    }
}

#[test]
fn kept_bytes_mean_what_they_always_meant() {
    for (name, sample) in files() {
        let kept = fs::read(golden().join(&name)).unwrap();
        let read = Any::read(sample.kind(), &kept).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(format!("{read:?}"), format!("{sample:?}"), "{name}");
    }
}

#[test]
fn fields_of_a_newer_process_are_ignored() {
    // Field 15,000 as a varint, as eight bytes, as text and as four bytes.
    let unknown: [&[u8]; 4] = [
        &[0xc0, 0xa9, 0x07, 0x2a],
        &[0xc1, 0xa9, 0x07, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0xc2, 0xa9, 0x07, 3, b'n', b'e', b'w'],
        &[0xc5, 0xa9, 0x07, 1, 2, 3, 4],
    ];
    for (name, sample) in files() {
        for unknown in unknown {
            let bytes = [sample.encode(), unknown.to_vec()].concat();
            let read = Any::read(sample.kind(), &bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(format!("{read:?}"), format!("{sample:?}"), "{name} with {unknown:?}");
        }
    }
}
