//! The signals that ask the process to stop. They are a value that is handed to [`crate::Lifecycle::run`], so that a test
//! can play them; once installed, the default action (death at once) is off for good, also after the value is dropped.

use std::{fmt, io};

use tokio::signal::unix::{self, SignalKind};

/// A signal that asks the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, what a supervisor sends.
    Terminate,
    /// SIGINT, what a terminal sends on Ctrl-C.
    Interrupt,
}

/// Where signals come from.
#[derive(Debug)]
pub struct Signals(Source);

#[derive(Debug)]
enum Source {
    Process {
        terminate: unix::Signal,
        interrupt: unix::Signal,
    },
    #[cfg(test)]
    Scripted(tokio::sync::mpsc::Receiver<Signal>),
}

// === impl Signal ===

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        })
    }
}

// === impl Signals ===

impl Signals {
    /// Takes SIGTERM and SIGINT over from the system's default action.
    pub fn install() -> io::Result<Self> {
        let terminate = unix::signal(SignalKind::terminate())?;
        let interrupt = unix::signal(SignalKind::interrupt())?;
        Ok(Self(Source::Process { terminate, interrupt }))
    }

    #[cfg(test)]
    pub(crate) fn scripted(receiver: tokio::sync::mpsc::Receiver<Signal>) -> Self {
        Self(Source::Scripted(receiver))
    }

    /// The next signal. Safe to drop halfway.
    pub async fn next(&mut self) -> Signal {
        match &mut self.0 {
            Source::Process { terminate, interrupt } => tokio::select! {
                _ = terminate.recv() => Signal::Terminate,
                _ = interrupt.recv() => Signal::Interrupt,
            },
            #[cfg(test)]
            Source::Scripted(receiver) => match receiver.recv().await {
                Some(signal) => signal,
                None => std::future::pending().await,
            },
        }
    }
}
