//! Options of the listener that clients connect to, and the TLS that they make.

use std::path::PathBuf;

use clap::Args;
use http::HeaderName;
use tracing::info;
use weir_daemon::clients::{ClientTls, ListenerCertificate};
use weir_proxy::http::entrance::EntranceLimits;
use weir_upstream::{FrontProxyFiles, RequestHeaders, Upstream};

use crate::fault::Fault;
use crate::process::Process;

/// Of the open files that a process may have, so many in a hundred may be connections of clients: the rest is for upstream.
const CONNECTIONS_OF_100_FILES: u64 = 75;

/// How clients connect, beside where.
#[derive(Clone, Debug, Args)]
pub(crate) struct TlsArguments {
    /// The certificate that clients are shown, with its chain, in PEM. It is read again when it changes. With it, any address can
    /// be listened on; without it weir makes one, for this machine only.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its private key in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Listen on any address with a certificate that weir makes at each start, for these names beside localhost. Clients
    /// need its CA, which --write-kubeconfig writes.
    #[arg(long, value_name = "NAME,…", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    #[arg(default_missing_value = "", conflicts_with = "tls_cert_file")]
    tls_self_signed: Option<Vec<String>>,
    /// The CAs, in PEM, of clients who show a certificate: upstream's own --client-ca-file. weir verifies them itself and passes
    /// their requests on as a front proxy, so it needs the pair below. Read again when it changes, as these are.
    #[arg(long, value_name = "FILE", requires_all = ["proxy_client_cert_file", "proxy_client_key_file"])]
    client_ca_file: Option<PathBuf>,
    /// The certificate, in PEM, that upstream takes for a front proxy's: of its --requestheader-client-ca-file, with a name of
    /// its --requestheader-allowed-names.
    #[arg(long, value_name = "FILE", requires_all = ["proxy_client_key_file", "client_ca_file"])]
    proxy_client_cert_file: Option<PathBuf>,
    /// Its private key in PEM. Whoever has it is anybody to upstream.
    #[arg(long, value_name = "FILE", requires_all = ["proxy_client_cert_file", "client_ca_file"])]
    proxy_client_key_file: Option<PathBuf>,
    /// Where upstream reads the user of a front proxy's request, as its option of this name has it.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "X-Remote-User")]
    requestheader_username_headers: Vec<HeaderName>,
    /// Where it reads the user's groups.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "X-Remote-Group")]
    requestheader_group_headers: Vec<HeaderName>,
    /// Where it reads the user's uid.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "X-Remote-Uid")]
    requestheader_uid_headers: Vec<HeaderName>,
    /// Where it reads what else is known of the user.
    #[arg(long, value_name = "PREFIX,…", value_delimiter = ',', default_value = "X-Remote-Extra-")]
    requestheader_extra_headers_prefix: Vec<HeaderName>,
    /// How many connections clients may have, at most three quarters of the files that weir may open. Beyond it they wait.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: Option<u32>,
}

// === impl TlsArguments ===

impl TlsArguments {
    /// What these options make; files are followed as they change.
    pub(crate) fn tls(&self, process: &Process, upstream: &Upstream) -> Result<ClientTls, Fault> {
        let tls = ClientTls::new(self.certificate(), self.client_ca_file.clone());
        let tls = tls.map_err(|error| {
            Fault::usage("--tls-cert-file, --tls-private-key-file, --client-ca-file", error)
        })?;
        match self.front_proxy() {
            Some(files) => upstream
                .be_front_proxy(files, &process.lifecycle, &process.reloads)
                .map_err(|error| Fault::usage("--proxy-client-cert-file, --proxy-client-key-file", error))?,
            None => info!("clients are not asked for certificates: there is no front-proxy pair"),
        }
        tls.follow(&process.lifecycle, &process.reloads);
        Ok(tls)
    }

    fn front_proxy(&self) -> Option<FrontProxyFiles> {
        let (certificate, key) =
            self.proxy_client_cert_file.clone().zip(self.proxy_client_key_file.clone())?;
        let headers = RequestHeaders {
            user: self.requestheader_username_headers.clone(),
            group: self.requestheader_group_headers.clone(),
            uid: self.requestheader_uid_headers.clone(),
            extra_prefix: self.requestheader_extra_headers_prefix.clone(),
        };
        Some(FrontProxyFiles { certificate, key, headers })
    }

    /// Bounds of connections.
    pub(crate) fn limits(&self) -> EntranceLimits {
        let limits = EntranceLimits::default();
        let asked = self.max_connections.map_or(limits.connections, |asked| asked as usize);
        // It was raised when the process began; to ask again changes nothing.
        let files = weir_daemon::limits::raise_open_files().ok().flatten();
        let room = files.map(|files| usize::try_from(files / 100 * CONNECTIONS_OF_100_FILES));
        let room = room.and_then(Result::ok).unwrap_or(usize::MAX).max(1);
        EntranceLimits { connections: asked.min(room), ..limits }
    }

    /// The same options for another process.
    pub(crate) fn written(&self) -> Vec<String> {
        let Self { tls_self_signed, max_connections, .. } = self;
        let files = [
            ("--tls-cert-file", &self.tls_cert_file),
            ("--tls-private-key-file", &self.tls_private_key_file),
            ("--client-ca-file", &self.client_ca_file),
            ("--proxy-client-cert-file", &self.proxy_client_cert_file),
            ("--proxy-client-key-file", &self.proxy_client_key_file),
        ];
        let names = [
            ("username-headers", &self.requestheader_username_headers),
            ("group-headers", &self.requestheader_group_headers),
            ("uid-headers", &self.requestheader_uid_headers),
            ("extra-headers-prefix", &self.requestheader_extra_headers_prefix),
        ];
        let of_name = |(option, names): (&str, &Vec<HeaderName>)| {
            let names: Vec<&str> = names.iter().map(HeaderName::as_str).collect();
            format!("--requestheader-{option}={}", names.join(","))
        };
        let mut written: Vec<String> = names.into_iter().map(of_name).collect();
        for (name, file) in files {
            written.extend(file.iter().flat_map(|file| [name.to_owned(), file.display().to_string()]));
        }
        written.extend(tls_self_signed.iter().map(|names| format!("--tls-self-signed={}", names.join(","))));
        written.extend(max_connections.iter().map(|most| format!("--max-connections={most}")));
        written
    }

    fn certificate(&self) -> ListenerCertificate {
        match (&self.tls_cert_file, &self.tls_private_key_file, &self.tls_self_signed) {
            (Some(certificate), Some(key), _) => {
                ListenerCertificate::Files { certificate: certificate.clone(), key: key.clone() }
            }
            (_, _, Some(names)) => {
                let names = names.iter().filter(|name| !name.is_empty()).cloned();
                ListenerCertificate::SelfSigned { names: names.collect() }
            }
            _ => ListenerCertificate::Loopback,
        }
    }
}
