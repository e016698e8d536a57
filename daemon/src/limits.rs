//! Limits that the system sets the process. Every client connection is a descriptor, and the usual soft limit of 1,024 is
//! there for programs that use `select`; weir takes what the hard limit allows.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one. The limit that holds now; None where there is none.
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(getrlimit(Resource::Nofile).current)
}

#[cfg(test)]
mod tests {
    use super::*;

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
