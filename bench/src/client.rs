//! A client as client-go is one: TLS, many requests on one HTTP/2 connection, and windows of its size. With HTTP/1.1 it
//! sends one request a connection.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use weir_daemon::Lifecycle;
use weir_upstream::TaskExecutor;

use crate::served::TOKEN;

/// client-go lets so much of one stream be on its way, and does not bound the connection.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One request at a time.
    Http1,
    /// Many.
    Http2,
}

/// Connects.
#[derive(Clone)]
pub struct Dialer {
    address: SocketAddr,
    roots: Arc<RootCertStore>,
    lifecycle: Lifecycle,
}

/// One connection.
pub struct Client {
    address: SocketAddr,
    sender: Sender,
}

enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

// === impl Dialer ===

impl Dialer {
    /// To weir at this address, with this CA.
    pub fn new(address: SocketAddr, ca_file: &Path, lifecycle: Lifecycle) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca_file).context("read the CA")? {
            roots.add(certificate?)?;
        }
        Ok(Self { address, roots: Arc::new(roots), lifecycle })
    }

    /// Opens a connection.
    pub async fn connect(&self, protocol: Protocol) -> Result<Client> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = TlsConnector::from(self.tls(protocol)?).connect(name, stream).await?;
        let stream = TokioIo::new(stream);
        let sender = match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                self.lifecycle.spawn("connection", async move { drop(connection.await) });
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let executor = TaskExecutor::new(self.lifecycle.clone(), "stream");
                let mut builder = http2::Builder::new(executor);
                builder
                    .initial_stream_window_size(STREAM_WINDOW)
                    .initial_connection_window_size(CONNECTION_WINDOW);
                let (sender, connection) = builder.handshake(stream).await?;
                self.lifecycle.spawn("connection", async move { drop(connection.await) });
                Sender::Http2(sender)
            }
        };
        Ok(Client { address: self.address, sender })
    }

    fn tls(&self, protocol: Protocol) -> Result<Arc<ClientConfig>> {
        let builder = ClientConfig::builder_with_provider(weir_daemon::tls::provider());
        let builder = builder.with_safe_default_protocol_versions()?;
        let mut config = builder.with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = vec![match protocol {
            Protocol::Http1 => b"http/1.1".to_vec(),
            Protocol::Http2 => b"h2".to_vec(),
        }];
        Ok(Arc::new(config))
    }
}

// === impl Client ===

impl Client {
    /// The answer to a GET that a mirror gave; anything else is an error here.
    pub async fn get(&mut self, path: &str) -> Result<Response<Incoming>> {
        let address = self.address;
        let (uri, host) = match self.sender {
            Sender::Http1(_) => (path.to_owned(), Some(address.to_string())),
            Sender::Http2(_) => (format!("https://{address}{path}"), None),
        };
        let mut request = Request::get(uri).header("authorization", format!("Bearer {TOKEN}"));
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let request = request.body(Empty::new())?;
        let response = match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await?,
            Sender::Http2(sender) => sender.send_request(request).await?,
        };
        let by =
            response.headers().get("weir-answered-by").and_then(|by| by.to_str().ok()).unwrap_or_default();
        if !response.status().is_success() || by.split("; ").next() != Some("mirror") {
            bail!("{path} was answered {} by {by:?}", response.status());
        }
        Ok(response)
    }
}
