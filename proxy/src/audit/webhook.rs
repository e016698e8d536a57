//! A webhook that takes lists of events, found and trusted as a kubeconfig says. A list that it did not take is sent again, so
//! it may get one twice; kube-apiserver does the same.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, StatusCode};
use tokio_util::sync::CancellationToken;
use weir_upstream::{ConnectError, Connection, Role, SendError, Upstream};

use super::sink::{RETRY, Source};

/// Events of one list, as kube-apiserver sends at most.
const BATCH: usize = 400;

/// Why a list was not taken.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// Nobody can be reached.
    #[error("connect to the webhook")]
    Connect(#[from] ConnectError),
    /// The request broke off.
    #[error("send to the webhook")]
    Send(#[from] SendError),
    /// It was refused.
    #[error("the webhook answered with {0}")]
    Refused(StatusCode),
}

/// Sends events to a webhook.
#[derive(Debug)]
pub struct Webhook {
    to: Upstream,
    connection: Option<Connection>,
}

// === impl Webhook ===

impl Webhook {
    /// To the server of this configuration; nothing is sent yet.
    pub fn new(to: Upstream) -> Self {
        Self { to, connection: None }
    }

    /// Sends what comes until told to stop, and then what waits, once.
    pub async fn run(mut self, mut source: Source, stop: CancellationToken) {
        let mut lines = Vec::new();
        loop {
            let mut is_last = stop.is_cancelled();
            if lines.is_empty() {
                lines = stop.run_until_cancelled(source.take(BATCH)).await.unwrap_or_default();
                is_last = lines.is_empty();
            }
            if is_last {
                lines.extend(source.rest());
            }
            if lines.is_empty() {
                return;
            }
            let sent = self.send(&lines).await;
            source.note(sent.as_ref().copied().map_err(|error| error as &(dyn std::error::Error + 'static)));
            if is_last {
                return;
            }
            match sent {
                Ok(()) => lines.clear(),
                Err(_) => drop(stop.run_until_cancelled(tokio::time::sleep(RETRY)).await),
            }
        }
    }

    async fn send(&mut self, lines: &[Bytes]) -> Result<(), WebhookError> {
        let connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => {
                let instances = self.to.instances();
                let first = instances.first().ok_or(ConnectError::NoInstance)?;
                first.connect(Role::Audit).await?
            }
        };
        let mut request = Request::post("/").body(list(lines)).unwrap_or_default();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let answer = connection.send(request).await?;
        if !answer.status().is_success() {
            return Err(WebhookError::Refused(answer.status()));
        }
        self.connection = Some(connection);
        Ok(())
    }
}

fn list(lines: &[Bytes]) -> Bytes {
    let mut text = br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#.to_vec();
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(line);
    }
    text.extend_from_slice(b"]}\n");
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_object() {
        let lines = [Bytes::from_static(br#"{"a":1}"#), Bytes::from_static(br#"{"b":2}"#)];
        let list: serde_json::Value = serde_json::from_slice(&list(&lines)).unwrap();
        assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&"EventList".into(), 2));
    }
}
