//! HTTP/1.1 by hand: one request a connection, chunks told apart from the end of the connection.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// No answer of these tests takes longer, by far; a hang is a failure.
const LIMIT: Duration = Duration::from_secs(20);

/// A client of one instance.
pub(crate) struct Client {
    pub(crate) addr: SocketAddr,
    pub(crate) token: String,
}

/// An answer whose body may still be coming.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HashMap<String, String>,
    stream: BufReader<TcpStream>,
    pending: Vec<u8>,
}

/// How a body ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Whole,
    Broken,
}

// === impl Client ===

impl Client {
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { addr: self.addr, token: token.to_owned() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "").await
    }

    pub(crate) async fn text(&self, path: &str) -> (u16, String) {
        let answer = self.get(path).await;
        let code = answer.code;
        (code, answer.body().await.0)
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        self.send_with(method, path, (&format!("Content-Type: {kind}\r\n"), body)).await
    }

    pub(crate) async fn send_with(&self, method: &str, path: &str, (headers, body): (&str, &str)) -> Answer {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        let token = match self.token.as_str() {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: sim\r\nConnection: close\r\n{token}{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        timeout(LIMIT, Answer::read(BufReader::new(stream))).await.expect("no answer in time")
    }
}

// === impl Answer ===

impl Answer {
    async fn read(mut stream: BufReader<TcpStream>) -> Self {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let code =
            line.split(' ').nth(1).unwrap_or_else(|| panic!("no status line: {line:?}")).parse().unwrap();
        let mut headers = HashMap::new();
        loop {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        Self { code, headers, stream, pending: Vec::new() }
    }

    /// The rest of the body, and how it ended.
    pub(crate) async fn body(mut self) -> (String, End) {
        timeout(LIMIT, async {
            let end = match self.headers.get("content-length") {
                Some(length) => {
                    let mut bytes = vec![0; length.parse().unwrap()];
                    let is_whole = self.stream.read_exact(&mut bytes).await.is_ok();
                    self.pending = bytes;
                    if is_whole { End::Whole } else { End::Broken }
                }
                None => loop {
                    if let Some(end) = self.chunk().await {
                        break end;
                    }
                },
            };
            (String::from_utf8(self.pending).unwrap(), end)
        })
        .await
        .expect("no end of the body in time")
    }

    /// The next line of a chunked body; how the body ended when there is none.
    pub(crate) async fn line(&mut self) -> Result<String, End> {
        timeout(LIMIT, async {
            loop {
                if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                    let line = self.pending.drain(..=end).collect();
                    return Ok(String::from_utf8(line).unwrap().trim_end().to_owned());
                }
                if let Some(end) = self.chunk().await {
                    return Err(end);
                }
            }
        })
        .await
        .expect("no line in time")
    }

    async fn chunk(&mut self) -> Option<End> {
        let mut size = String::new();
        if self.stream.read_line(&mut size).await.unwrap_or(0) == 0 {
            return Some(End::Broken);
        }
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        if self.stream.read_exact(&mut chunk).await.is_err() {
            return Some(End::Broken);
        }
        self.pending.extend_from_slice(&chunk[..size]);
        (size == 0).then_some(End::Whole)
    }
}
