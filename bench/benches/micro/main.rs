//! The steps that a byte goes through on its way, each by itself, with what it allocates: `cargo bench -p weir-bench --bench
//! micro`, or with a part of a name behind `--`. The counts of allocations are exact; times are of this machine.

mod answering;
mod deciding;
mod matching;
mod merging;
mod objects;
mod storing;

use divan::AllocProfiler;

/// Counts what each benchmark allocates, over the allocator of the binary.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: AllocProfiler<tikv_jemallocator::Jemalloc> =
    AllocProfiler::new(tikv_jemallocator::Jemalloc);

fn main() {
    divan::main();
}
