//! A client of the operator's socket. Each request uses a new connection. See
//! [`latchmail_http::admin`] for the routes.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

/// The maximum size of a response, in bytes. Even a list of modules that have a thousand routes
/// each is smaller.
const MAX_RESPONSE: usize = 16 * 1024 * 1024;

/// An error response of the service.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct ErrorResponse {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

/// Sends a request to the running service and returns its JSON response.
///
/// # Errors
/// Returns [`ErrorResponse`] if the service responds with an error. Returns another error if no
/// service is running, or if the response cannot be read.
pub(super) async fn send(
    socket: &Path,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> anyhow::Result<Value> {
    if socket.as_os_str().is_empty() {
        bail!(
            "`admin.socket` is not configured; commands for modules need it to connect to the running service"
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
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_RESPONSE);
        let body = body.collect().await.map_err(|error| anyhow!(error))?;
        Ok::<_, anyhow::Error>((status, body.to_bytes()))
    };
    tokio::pin!(exchange);
    let (status, body) = tokio::select! {
        // The response and the end of the connection can arrive together. The future of the
        // response is polled first, so that the response is not lost.
        biased;
        result = &mut exchange => result,
        _ = connection => exchange.await,
    }
    .context("the service did not respond")?;
    let response: Value =
        serde_json::from_slice(&body).context("the response of the service is not JSON")?;
    if status.is_success() {
        return Ok(response);
    }
    let message = response["error"]
        .as_str()
        .unwrap_or("the service returned no error message");
    Err(ErrorResponse {
        status,
        message: latchmail_terminal::output::escape(message),
    }
    .into())
}
