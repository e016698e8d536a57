//! An address of a node as text: a host and a port. It is brought into one form when it is read, because processes
//! compare and order addresses as text; a name and the IP address that it stands for remain two addresses.

use std::{fmt, net::SocketAddr, str::FromStr, sync::Arc};

/// Where a node can be reached: `HOST:PORT`, the host an IP address (of IPv6 in brackets) or a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress(Arc<str>);

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It ends in no port.
    #[error("an address is HOST:PORT")]
    NoPort,
    /// Its port is no number from 1 to 65535.
    #[error("a port is a number from 1 to 65535")]
    Port,
    /// Its host is neither an IP address nor a name.
    #[error("a host is a name, an IPv4 address, or an IPv6 address in brackets")]
    Host,
}

// === impl NodeAddress ===

impl NodeAddress {
    /// `HOST:PORT`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (host, port) = text.rsplit_once(':').ok_or(AddressError::NoPort)?;
        if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(AddressError::Port);
        }
        let port = port.parse::<u16>().ok().filter(|&port| port != 0).ok_or(AddressError::Port)?;
        if let Ok(address) = format!("{host}:{port}").parse::<SocketAddr>() {
            return Ok(address.into());
        }
        if !is_name(host) {
            return Err(AddressError::Host);
        }
        Ok(Self(format!("{}:{port}", host.to_ascii_lowercase()).into()))
    }
}

impl From<SocketAddr> for NodeAddress {
    fn from(address: SocketAddr) -> Self {
        Self(SocketAddr::new(address.ip().to_canonical(), address.port()).to_string().into())
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name as resolvers take it: labels of letters, digits, `-` and `_`. Four numbers are an IPv4 address that is wrong.
fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let is_in = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_in)
    };
    let name = host.strip_suffix('.').unwrap_or(host);
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= 253 && name.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_form() {
        for (text, form) in [
            ("127.0.0.1:7443", "127.0.0.1:7443"),
            ("127.0.0.1:07443", "127.0.0.1:7443"),
            ("Shard-0.Weir.svc:1", "shard-0.weir.svc:1"),
            ("shard-0.weir.svc.:65535", "shard-0.weir.svc.:65535"),
            ("localhost:7443", "localhost:7443"),
            ("[::1]:7443", "[::1]:7443"),
            ("[0:0::0:1]:7443", "[::1]:7443"),
            ("[::ffff:192.0.2.1]:7443", "192.0.2.1:7443"),
        ] {
            assert_eq!(text.parse::<NodeAddress>().unwrap().as_str(), form, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (text, error) in [
            ("", AddressError::NoPort),
            ("localhost", AddressError::NoPort),
            ("localhost:", AddressError::Port),
            ("localhost:0", AddressError::Port),
            ("localhost:+1", AddressError::Port),
            ("localhost:65536", AddressError::Port),
            ("localhost:https", AddressError::Port),
            (":7443", AddressError::Host),
            ("a..b:7443", AddressError::Host),
            ("::1:7443", AddressError::Host),
            ("[::1:7443", AddressError::Host),
            ("127.0.0.256:7443", AddressError::Host),
            ("https://localhost:7443", AddressError::Host),
            ("local host:7443", AddressError::Host),
        ] {
            assert_eq!(text.parse::<NodeAddress>(), Err(error), "{text}");
        }
    }
}
