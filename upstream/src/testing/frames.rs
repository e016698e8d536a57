//! An HTTP/2 server at the level of frames, for what a well-behaved library does not do: refuse one stream, name any last
//! stream in a GOAWAY, break off. It reads no header, so what a script knows of a request is its body.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use weir_daemon::Lifecycle;

use super::Authority;
use crate::{Origin, Upstream, UpstreamOptions};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const REFUSED_STREAM: u32 = 7;
const PREFACE_BYTES: usize = 24;

/// What the server does. Statuses have three digits.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Answer { stream: u32, status: &'static str },
    GoAway { last: u32 },
    Refuse { stream: u32 },
    Break,
}

/// A request that has been read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Counted from 0.
    pub(crate) connection: usize,
    pub(crate) stream: u32,
    pub(crate) body: String,
}

pub(crate) struct FrameServer {
    address: SocketAddr,
    authority: Authority,
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<AtomicUsize>,
}

impl FrameServer {
    /// Does what the script says to each request. As Go's server does, it reads nothing of streams beyond the last that
    /// its own GOAWAY named.
    pub(crate) async fn start<S>(life: &Lifecycle, script: S) -> Self
    where
        S: Fn(&Asked) -> Vec<Act> + Clone + Send + Sync + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let authority = Authority::new(&["h2"]);
        let acceptor = TlsAcceptor::from(Arc::clone(&authority.config));
        let server = Self { address, authority, asked: Arc::default(), connections: Arc::default() };
        let (asked, connections) = (Arc::clone(&server.asked), Arc::clone(&server.connections));
        let spawner = life.clone();
        life.spawn("frame server", async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (acceptor, script, asked) = (acceptor.clone(), script.clone(), Arc::clone(&asked));
                let number = connections.fetch_add(1, Ordering::SeqCst);
                spawner.spawn("frame connection", async move {
                    let Ok(stream) = acceptor.accept(tcp).await else { return };
                    let connection = Served { number, stream, bodies: HashMap::new(), last: u32::MAX };
                    // The client ends connections as it likes.
                    let _ = connection.serve(script, &asked).await;
                });
            }
        });
        server
    }

    pub(crate) async fn upstream(&self, life: &Lifecycle) -> Upstream {
        use base64::Engine;
        let ca = base64::engine::general_purpose::STANDARD.encode(&self.authority.ca_pem);
        let cluster = serde_json::json!({
            "server": format!("https://{}", self.address), "certificate-authority-data": ca,
        });
        let file = super::TestFile::new(&super::kubeconfig(&cluster, &serde_json::json!({})));
        let origin = Origin::Kubeconfig { path: Some(file.path.clone()), context: None };
        Upstream::load(UpstreamOptions { origin, urls: Vec::new() }, life).await.unwrap()
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

struct Served<T> {
    number: usize,
    stream: T,
    bodies: HashMap<u32, Vec<u8>>,
    last: u32,
}

impl<T: io::AsyncRead + io::AsyncWrite + Unpin> Served<T> {
    async fn serve<S>(mut self, script: S, asked: &Mutex<Vec<Asked>>) -> io::Result<()>
    where
        S: Fn(&Asked) -> Vec<Act>,
    {
        self.stream.read_exact(&mut [0; PREFACE_BYTES]).await?;
        // A window of 1 MiB for each stream, and for the connection all there is: nothing waits for this server.
        let window = [&4_u16.to_be_bytes()[..], &(1_u32 << 20).to_be_bytes()].concat();
        self.write(SETTINGS, 0, (0, &window)).await?;
        self.write(WINDOW_UPDATE, 0, (0, &0x7fff_0000_u32.to_be_bytes())).await?;
        loop {
            let Some(request) = self.read().await? else { continue };
            asked.lock().unwrap().push(request.clone());
            for act in script(&request) {
                match act {
                    Act::Answer { stream, status } => {
                        // `:status` by its place in the static table, its value as it is.
                        let head = [&[0x08, 3], status.as_bytes()].concat();
                        self.write(HEADERS, END_HEADERS | END_STREAM, (stream, &head)).await?;
                    }
                    Act::GoAway { last } => {
                        self.last = last;
                        let frame = [last.to_be_bytes(), 0_u32.to_be_bytes()].concat();
                        self.write(GOAWAY, 0, (0, &frame)).await?;
                    }
                    Act::Refuse { stream } => {
                        self.write(RST_STREAM, 0, (stream, &REFUSED_STREAM.to_be_bytes())).await?;
                    }
                    Act::Break => return Ok(()),
                }
            }
        }
    }

    /// Reads one frame; a request when this was its end.
    async fn read(&mut self) -> io::Result<Option<Asked>> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await?;
        let [a, b, c, kind, flags, id @ ..] = head;
        let stream = u32::from_be_bytes(id);
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload).await?;
        match kind {
            SETTINGS if flags & ACK == 0 => self.write(SETTINGS, ACK, (0, &[])).await?,
            PING if flags & ACK == 0 => self.write(PING, ACK, (0, &payload)).await?,
            RST_STREAM => drop(self.bodies.remove(&stream)),
            DATA | HEADERS if stream <= self.last => {
                let body = self.bodies.entry(stream).or_default();
                if kind == DATA {
                    body.extend(payload);
                }
                if flags & END_STREAM != 0 {
                    let body = self.bodies.remove(&stream).unwrap_or_default();
                    let body = String::from_utf8(body).unwrap();
                    return Ok(Some(Asked { connection: self.number, stream, body }));
                }
            }
            _ => {}
        }
        Ok(None)
    }

    async fn write(&mut self, kind: u8, flags: u8, (stream, payload): (u32, &[u8])) -> io::Result<()> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.stream.write_all(&frame).await?;
        self.stream.flush().await
    }
}
