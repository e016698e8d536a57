//! What can go wrong on the way to an instance. Whether a request may be sent again hangs on one question only, was it
//! sent, so that is told by the variant and never guessed from a text.

use std::{io, path::PathBuf};

use kube::config::{InClusterError, KubeconfigError};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The kubeconfig cannot be read or does not fit together.
    #[error("cannot use the kubeconfig{}", path.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default())]
    Kubeconfig {
        /// The file, when one was named.
        path: Option<PathBuf>,
        /// What is wrong with it.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// The process does not run in a pod, or lacks its service account.
    #[error("cannot use the service account of the pod")]
    InCluster(#[source] Box<InClusterError>),
    /// The cluster is behind a proxy.
    #[error(
        "the kubeconfig names a proxy-url, which weir does not support: name the apiserver with --upstream"
    )]
    ProxyUrl,
    /// An address is no absolute http or https URL.
    #[error("{url} is no upstream: an upstream is written https://HOST[:PORT][/PATH]")]
    Url {
        /// The URL as given.
        url: http::Uri,
    },
    /// The host of an address, or `tls-server-name`, cannot stand in a certificate.
    #[error("{name} is no name of a server")]
    ServerName {
        /// The name.
        name: String,
    },
    /// The token file cannot be read.
    #[error("cannot read the token file {}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The thread that read it died.
    #[error("reading the configuration was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
    /// A credential of the user cannot be used, or its plugin failed.
    #[error("cannot use the credentials of the kubeconfig")]
    Credentials(#[source] Box<kube::Error>),
}

/// Why there is no connection that took the request. Nothing was carried out.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The host has no address.
    #[error("look up {host}")]
    Resolve {
        /// The host.
        host: String,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// No address of the instance takes connections.
    #[error("connect to {instance}")]
    Tcp {
        /// The instance.
        instance: String,
        /// What the last address said.
        #[source]
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error("TLS handshake with {instance}")]
    Tls {
        /// The instance.
        instance: String,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The HTTP handshake failed.
    #[error("HTTP handshake with {instance}")]
    Http {
        /// The instance.
        instance: String,
        /// What went wrong.
        #[source]
        source: hyper::Error,
    },
    /// Somebody else tried while this request waited for the connection, and failed.
    #[error("another connect to {instance} has just failed")]
    JustFailed {
        /// The instance.
        instance: String,
    },
    /// It said of this request, on one connection after the other, that it did not look at it.
    #[error("{instance} did not look at the request")]
    Refused {
        /// The instance.
        instance: String,
        /// What it said last.
        #[source]
        source: hyper::Error,
    },
    /// As many requests as may be are under way there.
    #[error("too many requests are under way at {instance}")]
    Full {
        /// The instance.
        instance: String,
    },
    /// It does not take weir's certificate for that of a front proxy, or weir is none.
    #[error("weir is no front proxy to {instance}")]
    NotFrontProxy {
        /// The instance.
        instance: String,
    },
    /// There are no credentials to show.
    #[error("no credentials")]
    Credentials {
        /// Why not.
        #[source]
        source: BoxError,
    },
    /// There is none to connect to.
    #[error("there is no instance")]
    NoInstance,
    /// It took too long.
    #[error("{instance} did not answer in time")]
    Timeout {
        /// The instance.
        instance: String,
    },
}

/// Why a request of weir's own has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// There are no credentials to send.
    #[error("no credentials")]
    Credentials(#[source] BoxError),
    /// The request cannot be written down.
    #[error("the request is malformed")]
    Malformed(#[from] http::Error),
    /// The connection that a second request needs on HTTP/1.1 could not be made.
    #[error("no connection")]
    Connect(#[from] ConnectError),
    /// The connection broke; the request may have been carried out.
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
    /// No answer came in time.
    #[error("no answer in time")]
    Timeout,
}

/// Why a passed-on request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// Nothing was carried out by any instance.
    #[error("no instance of upstream can be reached")]
    Unreachable(#[source] ConnectError),
    /// The request cannot be written down.
    #[error("the request is malformed")]
    Malformed(#[from] http::Error),
    /// The connection broke before an answer came; the request may have been carried out.
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
    /// The answer broke off, or is longer than an answer to this question can be.
    #[error("the answer cannot be read")]
    Answer(#[source] BoxError),
    /// No answer came in time.
    #[error("no answer in time")]
    Timeout,
}

/// The kinds of failure that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// No connection: nothing was sent.
    Connect,
    /// No trust: nothing was sent.
    Tls,
    /// Too slow.
    Timeout,
    /// The connection ended before the answer.
    Closed,
    /// weir has nothing to show to upstream.
    Credentials,
    /// The request itself is at fault.
    Malformed,
}

/// An error of any type, as bodies and services have them.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

// === impl ConnectError ===

impl ConnectError {
    /// What kind of failure this is.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Resolve { .. }
            | Self::Tcp { .. }
            | Self::Http { .. }
            | Self::JustFailed { .. }
            | Self::Refused { .. }
            | Self::Full { .. }
            | Self::NoInstance => FailureKind::Connect,
            Self::Tls { .. } => FailureKind::Tls,
            Self::Timeout { .. } => FailureKind::Timeout,
            Self::NotFrontProxy { .. } | Self::Credentials { .. } => FailureKind::Credentials,
        }
    }
}

// === impl SendError ===

impl SendError {
    /// What kind of failure this is.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Credentials(_) => FailureKind::Credentials,
            Self::Malformed(_) => FailureKind::Malformed,
            Self::Connect(source) => source.kind(),
            Self::Broken(source) => broken_kind(source),
            Self::Timeout => FailureKind::Timeout,
        }
    }
}

impl ConnectError {
    /// Whether the instance cannot be reached. One that is only full, or refuses this request, can.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            Self::Resolve { .. }
            | Self::Tcp { .. }
            | Self::Tls { .. }
            | Self::Http { .. }
            | Self::JustFailed { .. }
            | Self::NoInstance
            | Self::Timeout { .. } => true,
            Self::Refused { .. }
            | Self::Full { .. }
            | Self::NotFrontProxy { .. }
            | Self::Credentials { .. } => false,
        }
    }
}

// === impl ForwardError ===

impl ForwardError {
    pub(crate) fn no_front_proxy() -> Self {
        Self::Unreachable(ConnectError::NotFrontProxy { instance: "upstream".to_owned() })
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Unreachable(source) => source.kind(),
            Self::Malformed(_) => FailureKind::Malformed,
            Self::Broken(source) => broken_kind(source),
            Self::Answer(_) => FailureKind::Closed,
            Self::Timeout => FailureKind::Timeout,
        }
    }
}

/// An unanswered ping is a time-out to hyper, and so it is here.
fn broken_kind(error: &hyper::Error) -> FailureKind {
    if error.is_timeout() { FailureKind::Timeout } else { FailureKind::Closed }
}
