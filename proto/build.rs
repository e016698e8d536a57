//! Compiles `weir/v1/*.proto` without protoc, in two passes: the messages; then the services over them, so that what is sent
//! to many peers can be [`Encoded`] in their signatures.
//!
//! [`Encoded`]: crate::encoded::Encoded

use std::path::PathBuf;
use std::{env, error, fs};

const FILES: [&str; 3] = ["weir/v1/common.proto", "weir/v1/feed.proto", "weir/v1/shard.proto"];

/// Messages of which one encoding goes to many peers.
const SHARED: [&str; 2] = ["FeedAnswer", "FromNode"];

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script where to write in the environment")]
fn out_dir(name: &str) -> Result<PathBuf, Box<dyn error::Error>> {
    let dir = PathBuf::from(env::var("OUT_DIR")?).join(name);
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let files = protox::compile(FILES, ["."])?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .bytes(".")
        .out_dir(out_dir("messages")?)
        .compile_fds(files.clone())?;
    let services = tonic_prost_build::configure()
        .build_transport(false)
        .codec_path("crate::encoded::WireCodec")
        .extern_path(".weir.v1", "crate::wire")
        .out_dir(out_dir("services")?);
    SHARED
        .into_iter()
        .fold(services, |services, name| {
            let shared = format!("crate::encoded::Encoded<crate::wire::{name}>");
            services.extern_path(format!(".weir.v1.{name}"), shared)
        })
        .compile_fds(files)?;
    for file in FILES {
        println!("cargo::rerun-if-changed={file}");
    }
    Ok(())
}
