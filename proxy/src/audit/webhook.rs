//! A webhook that takes lists of events, found and trusted as a kubeconfig says. A list that it did not take is sent again, so
//! it may get one twice; kube-apiserver does the same.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use tokio_util::sync::CancellationToken;
use weir_upstream::{ConnectError, Connection, Role, SendError, Upstream};

use super::sink::{Source, Writer};

/// How long one list may take; while it does, nothing else that is audited is answered from mirrors for long.
const LIMIT: Duration = Duration::from_secs(10);

/// Why a list was not taken.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// Nobody can be reached.
    #[error("connect to the webhook")]
    Connect(#[from] ConnectError),
    /// The request broke off.
    #[error("send to the webhook")]
    Send(#[from] SendError),
    /// It was not answered.
    #[error("the webhook did not answer in time")]
    Late,
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
    pub async fn run(self, source: Source, stop: CancellationToken) {
        source.write_to(self, stop).await;
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
        let mut request = Request::new(list(lines));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let answer = connection.send(request).await?;
        if !answer.status().is_success() {
            return Err(WebhookError::Refused(answer.status()));
        }
        self.connection = Some(connection);
        Ok(())
    }
}

impl Writer for Webhook {
    type Error = WebhookError;
    // As kube-apiserver sends at most.
    const BATCH: usize = 400;

    async fn write(&mut self, lines: &[Bytes]) -> (usize, Result<(), WebhookError>) {
        let sent = tokio::time::timeout(LIMIT, self.send(lines)).await;
        match sent.unwrap_or(Err(WebhookError::Late)) {
            Ok(()) => (lines.len(), Ok(())),
            Err(error) => (0, Err(error)),
        }
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
