//! the process skeleton: lifecycle and drain, configuration, telemetry, TLS.
