//! The one binary `weir`: parse, build, run, drain. What is wrong with the command line or its files is said in one
//! sentence, with exit code 2; what goes wrong later ends with 1.

mod arguments;
mod audit;
mod certs;
mod dev;
mod door;
mod duration;
mod fault;
mod listener;
mod memory;
mod process;
mod proxy;
mod rbac;
mod rights;
mod serve;
mod shard;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// jemalloc gives memory back after bursts, and keeps idle connections small; see docs/decisions.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A thread in the background returns memory within a second of its being freed.
#[cfg(not(target_env = "msvc"))]
#[expect(unsafe_code, reason = "the allocator reads its options from a symbol with this name")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_CONF: &[u8] = b"background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0\0";

/// A sharded watch cache and API proxy in front of kube-apiserver.
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve lists and watches of a cluster from memory, and pass everything else through.
    Serve(Box<serve::ServeArguments>),
    /// Hold one shard of every mirror, for proxies in other processes.
    Shard(Box<shard::ShardArguments>),
    /// Serve clients from shard nodes in other processes.
    Proxy(Box<proxy::ProxyArguments>),
    /// Make certificates with which weir's own processes know each other, for a trial.
    Certs(certs::CertsArguments),
    /// Print the roles that weir's own identity needs, as manifests.
    Rbac(rbac::RbacArguments),
    /// The same in front of a simulated apiserver with a small cluster that keeps changing, to try things on.
    Dev(Box<dev::DevArguments>),
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let ended = process::block_on(async move {
        match command {
            Command::Serve(arguments) => serve::serve(*arguments).await,
            Command::Shard(arguments) => shard::shard(*arguments).await,
            Command::Proxy(arguments) => proxy::proxy(*arguments).await,
            Command::Certs(arguments) => certs::certs(&arguments),
            Command::Rbac(arguments) => {
                rbac::rbac(&arguments);
                Ok(())
            }
            Command::Dev(arguments) => dev::dev(*arguments).await,
        }
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            fault::say(&fault);
            fault.exit_code()
        }
    }
}
