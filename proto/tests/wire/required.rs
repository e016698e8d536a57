//! What the `.proto` files say of themselves is true: every field that they call required is refused when it is missing,
//! every value of an enum but the zero one is known, and every field occurs in a sample.

use std::collections::BTreeSet;

use prost::Message;
use protox::Compiler;
use protox::prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, FileDescriptor, Kind, Value};
use weir_proto::ProtocolError;

use crate::kinds::Any;
use crate::samples::files;

/// The files, with their comments.
fn pool() -> DescriptorPool {
    let mut compiler = Compiler::new([env!("CARGO_MANIFEST_DIR")]).unwrap();
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(["weir/v1/feed.proto", "weir/v1/shard.proto"]).unwrap();
    DescriptorPool::from_file_descriptor_set(compiler.file_descriptor_set()).unwrap()
}

fn says_required(file: &FileDescriptor, path: &[i32]) -> bool {
    let info = file.file_descriptor_proto().source_code_info.as_ref().unwrap();
    let comments = info.location.iter().filter(|location| location.path == path);
    comments.filter_map(|location| location.leading_comments.as_deref()).any(|text| text.contains("Required"))
}

fn is_required(field: &FieldDescriptor) -> bool {
    let file = field.parent_file();
    match field.containing_oneof() {
        Some(oneof) if !oneof.is_synthetic() => says_required(&file, oneof.path()),
        Some(_) | None => says_required(&file, field.path()),
    }
}

fn parts(value: &Value) -> Vec<&DynamicMessage> {
    match value {
        Value::Message(message) => vec![message],
        Value::List(values) => values.iter().flat_map(parts).collect(),
        _ => Vec::new(),
    }
}

/// The message without one required field, once for each that it or a part of it has.
fn without(message: &DynamicMessage) -> Vec<(String, DynamicMessage)> {
    let mut all = Vec::new();
    for (field, value) in message.fields() {
        let mut put = |name: String, value: Option<Value>| {
            let mut changed = message.clone();
            match value {
                Some(value) => changed.set_field(&field, value),
                None => changed.clear_field(&field),
            }
            all.push((name, changed));
        };
        if is_required(&field) {
            put(field.full_name().to_owned(), None);
        }
        match value {
            Value::Message(part) => {
                for (name, part) in without(part) {
                    put(name, Some(Value::Message(part)));
                }
            }
            Value::List(values) => {
                for (index, part) in values.iter().enumerate() {
                    let Value::Message(part) = part else { continue };
                    for (name, part) in without(part) {
                        let mut values = values.clone();
                        values[index] = Value::Message(part);
                        put(name, Some(Value::List(values)));
                    }
                }
            }
            _ => {}
        }
    }
    all
}

fn dynamic(pool: &DescriptorPool, sample: &Any) -> DynamicMessage {
    let descriptor = pool.get_message_by_name(&format!("weir.v1.{}", sample.kind())).unwrap();
    DynamicMessage::decode(descriptor, &*sample.encode()).unwrap()
}

#[test]
fn a_message_that_lacks_something_required_is_refused() {
    let pool = pool();
    let mut seen = BTreeSet::new();
    for (file, sample) in files() {
        for (field, lacking) in without(&dynamic(&pool, &sample)) {
            let bytes = lacking.encode_to_vec();
            let read = Any::read(sample.kind(), &bytes);
            assert!(
                matches!(read, Err(ProtocolError::Missing(_) | ProtocolError::Invalid(_))),
                "{file} without {field}: {read:?}"
            );
            seen.insert(field);
        }
    }
    let required = pool.all_messages().flat_map(|message| message.fields().collect::<Vec<_>>());
    let required: BTreeSet<String> =
        required.filter(is_required).map(|field| field.full_name().to_owned()).collect();
    assert_eq!(seen, required);
}

#[test]
fn every_field_occurs_in_a_sample() {
    fn note(message: &DynamicMessage, seen: &mut BTreeSet<String>) {
        for (field, value) in message.fields() {
            seen.insert(field.full_name().to_owned());
            for part in parts(value) {
                note(part, seen);
            }
        }
    }
    let pool = pool();
    let mut seen = BTreeSet::new();
    for (_, sample) in files() {
        note(&dynamic(&pool, &sample), &mut seen);
    }
    let fields = pool.all_messages().flat_map(|message| message.fields().collect::<Vec<_>>());
    let fields: BTreeSet<String> = fields.map(|field| field.full_name().to_owned()).collect();
    assert_eq!(seen, fields);
}

/// Every field of an enum in a message, changed to each value in turn.
fn with_values(message: &DynamicMessage) -> Vec<(i32, DynamicMessage)> {
    let mut all = Vec::new();
    for (field, value) in message.fields() {
        let mut put = |number: i32, value: Value| {
            let mut changed = message.clone();
            changed.set_field(&field, value);
            all.push((number, changed));
        };
        match (field.kind(), value) {
            (Kind::Enum(of), Value::EnumNumber(_)) => {
                let known = of.values().map(|value| value.number());
                known.chain([77]).for_each(|number| put(number, Value::EnumNumber(number)));
            }
            (_, Value::Message(part)) => {
                with_values(part).into_iter().for_each(|(number, part)| put(number, Value::Message(part)));
            }
            _ => {}
        }
    }
    all
}

#[test]
fn known_values_are_taken_and_unknown_ones_refused() {
    let pool = pool();
    let mut taken = 0;
    for (file, sample) in files() {
        for (number, changed) in with_values(&dynamic(&pool, &sample)) {
            let read = Any::read(sample.kind(), &changed.encode_to_vec());
            assert_eq!(read.is_ok(), (1..77).contains(&number), "{file} with {number}: {read:?}");
            taken += usize::from(read.is_ok());
        }
    }
    assert!(taken >= 7, "only {taken} values were tried");
}
