//! Which instances there are. Named URLs are instances as they stand; otherwise each address of the kubeconfig's server
//! is one, since each apiserver has a watch cache at its own progress. A balancer that shows one address hides that: then
//! there is one instance here, and a new connection may reach another apiserver.

use std::{io, net::SocketAddr};

use http::{Uri, uri::Authority};
use rustls_pki_types::ServerName;

use crate::error::LoadError;

/// How one instance is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// How logs and metrics call it.
    pub(crate) name: String,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The one address of the host that is this instance; otherwise the host is looked up for each connection.
    pub(crate) pinned: Option<SocketAddr>,
    /// For the header `Host`, and `:authority`.
    pub(crate) authority: Authority,
    /// What its certificate must say; None for http.
    pub(crate) server_name: Option<ServerName<'static>>,
    /// The path in front of every path, without a slash at its end.
    pub(crate) base_path: String,
}

// === impl Target ===

impl Target {
    /// Reads an upstream URL. `tls_server_name` stands for the host where certificates are concerned.
    pub(crate) fn new(url: &Uri, tls_server_name: Option<&str>) -> Result<Self, LoadError> {
        let malformed = || LoadError::Url { url: url.clone() };
        let authority = url.authority().cloned().ok_or_else(malformed)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let (server_name, default_port) = match url.scheme_str() {
            Some("https") => (Some(server_name(tls_server_name.unwrap_or(&host))?), 443),
            Some("http") => (None, 80),
            _ => return Err(malformed()),
        };
        if url.query().is_some() || authority.as_str().contains('@') || host.is_empty() {
            return Err(malformed());
        }
        let port = url.port_u16().unwrap_or(default_port);
        let name = format!("{}:{port}", authority.host());
        let base_path = url.path().trim_end_matches('/').to_owned();
        Ok(Self { name, host, port, pinned: None, authority, server_name, base_path })
    }

    /// Where to connect to.
    pub(crate) async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match self.pinned {
            Some(address) => Ok(vec![address]),
            None => Ok(tokio::net::lookup_host((self.host.as_str(), self.port)).await?.collect()),
        }
    }

    /// One target for each address of the host, where there are several; this one where there are not.
    pub(crate) fn spread(self, addresses: &[SocketAddr]) -> Vec<Self> {
        let servers = servers(addresses);
        if servers.len() < 2 || servers.iter().any(|address| address.ip().is_loopback()) {
            return vec![self];
        }
        let at =
            |address: SocketAddr| Self { name: address.to_string(), pinned: Some(address), ..self.clone() };
        servers.into_iter().map(at).collect()
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, LoadError> {
    ServerName::try_from(name.to_owned()).map_err(|_| LoadError::ServerName { name: name.to_owned() })
}

/// The addresses of one family. A server with both families must not count twice, and nothing tells which address
/// belongs to which server; so the family with more addresses counts, of equals the older one, which more networks carry.
fn servers(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let (mut v4, mut v6): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| address.is_ipv4());
    let servers = if v6.len() > v4.len() { &mut v6 } else { &mut v4 };
    servers.sort_unstable();
    servers.dedup();
    std::mem::take(servers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::new(&url.parse().unwrap(), None).unwrap()
    }

    fn names(target: Target, addresses: &[&str]) -> Vec<String> {
        let addresses: Vec<_> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        target.spread(&addresses).into_iter().map(|target| target.name).collect()
    }

    #[test]
    fn a_url_gives_host_port_name_and_path() {
        let plain = target("http://127.0.0.1:8001");
        assert_eq!((plain.host.as_str(), plain.port, plain.base_path.as_str()), ("127.0.0.1", 8001, ""));
        assert_eq!(plain.server_name, None);
        let deep = target("https://cluster.example/k8s/c-1/");
        assert_eq!((deep.name.as_str(), deep.base_path.as_str()), ("cluster.example:443", "/k8s/c-1"));
        let v6 = target("https://[::1]:6443");
        assert_eq!((v6.host.as_str(), v6.name.as_str()), ("::1", "[::1]:6443"));
        assert_eq!(v6.server_name, Some(ServerName::try_from("::1").unwrap()));
    }

    #[test]
    fn the_server_name_of_the_configuration_stands_for_the_host() {
        let url = "https://10.0.0.1:6443".parse().unwrap();
        let target = Target::new(&url, Some("kubernetes.example")).unwrap();
        assert_eq!(target.server_name, Some(ServerName::try_from("kubernetes.example").unwrap()));
        assert_eq!(target.authority.as_str(), "10.0.0.1:6443");
    }

    #[test]
    fn what_is_no_upstream_is_refused() {
        for url in ["/path", "localhost", "ftp://host", "https://user@host", "https://host?a=b"] {
            let error = Target::new(&url.parse().unwrap(), None).unwrap_err();
            assert!(matches!(error, LoadError::Url { .. }), "{url}: {error}");
        }
        let error = Target::new(&"https://host".parse().unwrap(), Some("no name")).unwrap_err();
        assert!(matches!(error, LoadError::ServerName { .. }));
    }

    #[test]
    fn each_address_of_a_name_is_an_instance_that_keeps_the_name() {
        let spread = target("https://api.example:6443")
            .spread(&["10.0.0.2:6443".parse().unwrap(), "10.0.0.1:6443".parse().unwrap()]);
        assert_eq!(
            spread.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(),
            ["10.0.0.1:6443", "10.0.0.2:6443"]
        );
        assert!(spread.iter().all(|target| target.authority.as_str() == "api.example:6443"));
        assert!(
            spread
                .iter()
                .all(|target| target.server_name == Some(ServerName::try_from("api.example").unwrap()))
        );
    }

    #[test]
    fn one_address_or_one_server_in_two_families_stays_one_instance() {
        let name = target("https://api.example");
        assert_eq!(names(name.clone(), &["10.0.0.1:443"]), ["api.example:443"]);
        assert_eq!(names(name.clone(), &["10.0.0.1:443", "[fd00::1]:443"]), ["api.example:443"]);
        assert_eq!(names(name.clone(), &[]), ["api.example:443"]);
        assert_eq!(names(name.clone(), &["10.0.0.1:443", "10.0.0.1:443"]), ["api.example:443"]);
        assert_eq!(
            names(name, &["[fd00::1]:443", "[fd00::2]:443", "10.0.0.1:443"]),
            ["[fd00::1]:443", "[fd00::2]:443"]
        );
    }
}
