//! A client of the operator's socket: one request, one answer. What there is to ask is in [`crate::http::admin`].

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

/// A list of modules, each with a thousand routes.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// What the service answered that was not a success.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub(super) struct Refused {
    /// The status.
    pub(super) status: StatusCode,
    /// The service's own words.
    pub(super) sentence: String,
}

/// Asks the service that runs.
///
/// # Errors
/// [`Refused`] where it would not; another sentence where it does not run, or cannot be understood.
pub(super) async fn ask(
    socket: &Path,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> anyhow::Result<Value> {
    if socket.as_os_str().is_empty() {
        bail!(
            "the configuration has no `admin.socket`, and that is how a running service is spoken to"
        );
    }
    let stream = UnixStream::connect(socket).await.map_err(|error| {
        anyhow!(
            "no service listens on {}: {error}. Modules are changed while the service runs, by its own user or root",
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
        // What was received before the connection closed is still there to be read.
        biased;
        answer = &mut answer => answer,
        _ = connection => answer.await,
    }
    .context("the service did not answer")?;
    let answer: Value = serde_json::from_slice(&body).context("the service's answer is no JSON")?;
    if status.is_success() {
        return Ok(answer);
    }
    let sentence = answer["error"].as_str().unwrap_or("it said nothing more");
    Err(Refused {
        status,
        sentence: super::plain(sentence),
    }
    .into())
}
