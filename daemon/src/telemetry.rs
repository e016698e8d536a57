//! Logs go to stderr, as text or as one JSON object a line; stdout belongs to what the user asked for. The level `error`
//! is for what a person must act on, so a log at `error` alone is a list of tasks for the operator.

use std::{env, io::IsTerminal};

use tracing::dispatcher::SetGlobalDefaultError;
use tracing_subscriber::{EnvFilter, filter::ParseError};

/// The environment variable with the filter, for example `info,weir_proxy=debug`.
pub const FILTER_VARIABLE: &str = "WEIR_LOG";

const DEFAULT_FILTER: &str = "info";

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error("the log filter {filter:?} cannot be read")]
    Filter {
        /// The filter as given.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: ParseError,
    },
    /// The process already logs.
    #[error("logging is set up already")]
    Again(#[source] SetGlobalDefaultError),
}

/// Starts logging. The filter is the one given, else that of [`FILTER_VARIABLE`], else `info`.
pub fn start(format: LogFormat, filter: Option<&str>) -> Result<(), TelemetryError> {
    let filter = parse(&chosen(filter, from_environment()))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A subscriber only: `log` records of dependencies are not carried over, since no crate here needs them.
    let started = match format {
        LogFormat::Text => tracing::subscriber::set_global_default(logs.finish()),
        LogFormat::Json => tracing::subscriber::set_global_default(logs.json().flatten_event(true).finish()),
    };
    started.map_err(TelemetryError::Again)
}

fn chosen(given: Option<&str>, environment: Option<String>) -> String {
    given.map(str::to_owned).or(environment).unwrap_or_else(|| DEFAULT_FILTER.to_owned())
}

#[expect(clippy::disallowed_methods, reason = "the one place where the log filter is configured")]
fn from_environment() -> Option<String> {
    env::var(FILTER_VARIABLE).ok().filter(|filter| !filter.is_empty())
}

fn parse(filter: &str) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::builder()
        .parse(filter)
        .map_err(|source| TelemetryError::Filter { filter: filter.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_wins_over_the_environment_and_that_over_the_default() {
        assert_eq!(chosen(Some("debug"), Some("warn".into())), "debug");
        assert_eq!(chosen(None, Some("warn".into())), "warn");
        assert_eq!(chosen(None, None), DEFAULT_FILTER);
    }

    #[test]
    fn a_filter_with_targets_is_read_and_a_broken_one_is_named() {
        assert_eq!(parse("info,weir_proxy=debug").unwrap().to_string(), "weir_proxy=debug,info");
        let error = parse("weir=loud").unwrap_err();
        assert_eq!(error.to_string(), "the log filter \"weir=loud\" cannot be read");
    }

    #[test]
    fn logging_starts_once() {
        start(LogFormat::Json, Some("off")).unwrap();
        let again = start(LogFormat::Text, Some("off")).unwrap_err();
        assert_eq!(again.to_string(), "logging is set up already");
    }
}
