//! A client of the operator's socket: one request and its response per connection. See [`latchmail_http::admin`] for the routes.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

/// Maximum size of a response in bytes, enough for a list of modules with a thousand routes each.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// A response of the service that is not a success.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub(super) struct Refused {
    /// HTTP status of the response.
    pub(super) status: StatusCode,
    /// The service's error message.
    pub(super) sentence: String,
}

/// Sends a request to the running service and returns its JSON response.
///
/// # Errors
/// Returns [`Refused`] if the response is not a success. Returns another error if no service is running or its response cannot be read.
pub(super) async fn ask(
    socket: &Path,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> anyhow::Result<Value> {
    if socket.as_os_str().is_empty() {
        bail!(
            "`admin.socket` is not configured, and commands on modules need it to reach the running service"
        );
    }
    let stream = UnixStream::connect(socket).await.map_err(|error| {
        anyhow!(
            "no service listens on {}: {error}. The service must be running, and only its own user or root can change modules",
            socket.display()
        )
    })?;
    let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
    let request = Request::builder()
        .method(method)
        .uri(format!("/api/v1/admin/modules{path}"))
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST_ANSWER);
        let body = body.collect().await.map_err(|error| anyhow!(error))?;
        Ok::<_, anyhow::Error>((status, body.to_bytes()))
    };
    tokio::pin!(answer);
    let (status, body) = tokio::select! {
        // Read a response that arrived before the connection closed.
        biased;
        answer = &mut answer => answer,
        _ = connection => answer.await,
    }
    .context("the service did not respond")?;
    let answer: Value =
        serde_json::from_slice(&body).context("the service's response is not JSON")?;
    if status.is_success() {
        return Ok(answer);
    }
    let sentence = answer["error"]
        .as_str()
        .unwrap_or("the service gave no reason");
    Err(Refused {
        status,
        sentence: super::plain(sentence),
    }
    .into())
}
