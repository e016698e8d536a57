//! What a person at a terminal is told when weir cannot go on: one sentence, and an exit code that tells a wrong command
//! line from a failure.

use std::process::ExitCode;

/// Why weir ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The command line, or a file that it names.
    #[error("{0}")]
    Usage(String),
    /// Anything that went wrong while running.
    #[error("{what}")]
    Failed {
        /// What was being done.
        what: &'static str,
        /// Why it did not work.
        #[source]
        source: anyhow::Error,
    },
    /// A task without which weir is of no use has ended.
    #[error("stopped: {0}")]
    Stopped(String),
}

// === impl Fault ===

impl Fault {
    /// A fault of the command line or of a file, with its causes in one sentence. Parsers show the place below theirs.
    pub(crate) fn usage(what: &str, error: impl Into<anyhow::Error>) -> Self {
        let causes = format!("{:#}", error.into());
        Self::Usage(format!("{what}: {}", causes.lines().next().unwrap_or_default()))
    }

    /// A failure while doing `what`.
    pub(crate) fn failed(what: &'static str, error: impl Into<anyhow::Error>) -> Self {
        Self::Failed { what, source: error.into() }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed { .. } | Self::Stopped(_) => ExitCode::FAILURE,
        }
    }
}

/// Tells the person at the terminal.
#[expect(clippy::print_stderr, reason = "the last word of the process to its user")]
pub(crate) fn say(fault: &Fault) {
    match fault {
        Fault::Usage(_) | Fault::Stopped(_) => eprintln!("weir: {fault}"),
        Fault::Failed { what, source } => eprintln!("weir: {what}: {source:#}"),
    }
}
