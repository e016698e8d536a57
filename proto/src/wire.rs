//! Messages, clients and servers as generated from `weir/v1/*.proto`. A field that a sender left out has its zero value or
//! is `None` here, so these types are read into their strict twins before anybody looks at them.

#![expect(
    missing_docs,
    clippy::too_many_arguments,
    reason = "generated; what the .proto files comment is documented"
)]

include!(concat!(env!("OUT_DIR"), "/messages/weir.v1.rs"));

pub use services::{feed_client, feed_server, shard_client, shard_server};

#[expect(
    unused_qualifications,
    clippy::too_many_lines,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
mod services {
    include!(concat!(env!("OUT_DIR"), "/services/weir.v1.rs"));
}
