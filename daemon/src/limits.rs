//! Limits that the system sets the process: open files, and memory. Every client connection is a descriptor, and the usual
//! soft limit of 1,024 is there for programs that use `select`; weir takes what the hard limit allows.

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// Where a process in a container finds the limit of its control group: version 2, and version 1.
const MEMORY_FILES: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
/// Version 1 writes no limit as the highest number of pages; nobody has so much.
const NO_LIMIT: u64 = 1 << 60;

/// Raises the soft limit of open files to the hard one. The limit that holds now; None where there is none.
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(getrlimit(Resource::Nofile).current)
}

/// Leaves no image of this process behind when it crashes, and lets no debugger at it but root's: its memory holds the tokens
/// of all its clients.
pub fn forbid_core_dumps() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // The limit does not count where a program takes the image.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// How many bytes the control group of a process in a container may take; None where there is no limit.
pub fn memory() -> Option<u64> {
    MEMORY_FILES.iter().find_map(|file| parse_memory(&std::fs::read_to_string(file).ok()?))
}

fn parse_memory(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < NO_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_memory_is_a_number_and_anything_else_is_none() {
        assert_eq!(parse_memory("2147483648\n"), Some(2 << 30));
        for text in ["max\n", "", "9223372036854771712\n", "-1"] {
            assert_eq!(parse_memory(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_process_that_forbids_it_leaves_no_image() {
        forbid_core_dumps().unwrap();
        assert_eq!(getrlimit(Resource::Core), Rlimit { current: Some(0), maximum: Some(0) });
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        forbid_core_dumps().unwrap();
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let low = Rlimit { current: Some(512), maximum };
        setrlimit(Resource::Nofile, low).unwrap();
        assert_eq!(raise_open_files().unwrap(), maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
        assert_eq!(raise_open_files().unwrap(), maximum, "again changes nothing");
    }
}
