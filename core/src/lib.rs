//! the language and the Kubernetes rules of weir; pure: no tokio, no I/O, no clock.
