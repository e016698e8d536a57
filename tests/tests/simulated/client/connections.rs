//! Clients by their connections: where these go, how many there were, and one of HTTP/1.1 that is kept between requests.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http1;

use super::{Answer, Client, Protocol, Server, Whole};

/// A connection on which one request follows the other.
pub(crate) struct Kept {
    client: Client,
    sender: http1::SendRequest<Full<Bytes>>,
}

// === impl Client ===

impl Client {
    /// The same, which finds the server at another address.
    pub(crate) fn by(&self, address: SocketAddr) -> Self {
        let server = Server { address, ..self.server.clone() };
        Self { server, ..self.alone() }
    }

    /// Where it finds the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// How many connections it has made.
    pub(crate) fn connections(&self) -> usize {
        self.open.lock().unwrap().tasks.len()
    }

    /// A connection that is kept between requests.
    pub(crate) async fn kept(&self) -> Kept {
        let client = self.speaking(Protocol::Http1);
        Kept { sender: client.http1().await, client }
    }
}

// === impl Kept ===

impl Kept {
    /// GET, to the end of the body; `None` if the connection is gone.
    pub(crate) async fn get(&mut self, path: &str) -> Option<Whole> {
        let mut request = Request::get(path).body(Full::default()).unwrap();
        *request.headers_mut() = self.client.headers.clone();
        request.headers_mut().insert("host", self.client.server.address.to_string().parse().unwrap());
        self.sender.ready().await.ok()?;
        let (head, body) = self.sender.send_request(request).await.ok()?.into_parts();
        Answer { code: head.status.as_u16(), headers: head.headers, body }.whole_or_broken().await
    }
}
