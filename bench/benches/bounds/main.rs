//! The bounds that the design promises, measured: `cargo bench -p weir-bench --bench bounds`, or with the name of one
//! measurement behind `--`. Each runs in a process of its own, since memory that one has used would be counted for the
//! next; clients run in further ones. A broken bound that does not depend on the machine ends with exit code 1.

mod decisions;
mod fan_in;
mod frontiers;
mod matching;
mod memory;
mod node_memory;
mod readers;
mod replay;
mod roles;
mod shards;
mod workers;

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

/// The same allocator with the same options as in the binary: resident bytes are a property of both.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A thread in the background returns memory within a second of its being freed.
#[cfg(not(target_env = "msvc"))]
#[expect(unsafe_code, reason = "the allocator reads its options from a symbol with this name")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_CONF: &[u8] = b"background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0\0";

/// The measurements, in the order in which they run.
const ALL: [&str; 9] = [
    "decisions",
    "memory",
    "fan-in",
    "matching",
    "slow-readers",
    "shards",
    "node-memory",
    "frontiers",
    "replay",
];

fn main() -> ExitCode {
    // Cargo adds --bench; options are for the harness that this is not.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let outcome = match arguments.split_first() {
        None => all(),
        Some((name, rest)) => one(name, rest),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&error);
            ExitCode::FAILURE
        }
    }
}

/// Every measurement; all run, also behind one that fails.
fn all() -> Result<bool> {
    let mut all_hold = true;
    for name in ALL {
        let status =
            Command::new(this_program()?).arg(name).status().with_context(|| format!("run {name}"))?;
        all_hold &= status.success();
    }
    Ok(all_hold)
}

fn one(name: &str, rest: &[String]) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match name {
            "decisions" => decisions::measure().await,
            "memory" => memory::measure().await,
            "memory-fresh" => memory::fresh().await,
            "fan-in" => fan_in::measure().await,
            "matching" => matching::measure().await,
            "slow-readers" => readers::measure().await,
            "shards" => shards::measure().await,
            "node-memory" => node_memory::measure().await,
            "frontiers" => frontiers::measure().await,
            "replay" => replay::measure().await,
            "watchers" => fan_in::watchers(rest).await,
            "readers" => readers::readers(rest).await,
            "node" => roles::node(rest).await,
            "nodes" => roles::nodes(rest).await,
            "proxies" => roles::proxies(rest).await,
            "replayer" => replay::replayer(rest).await,
            other => bail!("there is no measurement {other:?}; there are {}", ALL.join(", ")),
        }
    })
}

/// This program, to be run again in another role.
fn this_program() -> Result<OsString> {
    Ok(std::env::current_exe().context("find this program")?.into_os_string())
}

#[expect(clippy::print_stderr, reason = "the error of the program, for its caller")]
fn say(error: &anyhow::Error) {
    eprintln!("{error:#}");
}
