//! Sends one HTTP/1.1 request and reads its response over a new connection, within limits.

use std::pin::pin;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::endpoint::Io;

/// Maximum number of response headers.
const MAX_HEADERS: usize = 128;
/// Maximum total size of the status line and all response headers, in bytes.
const MAX_HEAD_SIZE: usize = 64 * 1024;

/// Hop-by-hop headers of requests and responses (RFC 9110, section 7.6.1), including headers that
/// are hop-by-hop by convention.
pub(super) const HOP_BY_HOP_HEADERS: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A response.
#[derive(Debug)]
pub struct Response {
    /// The status code. Errors and redirects are also possible.
    pub status: StatusCode,
    /// The headers, without hop-by-hop headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// A response whose body arrives over time. Dropping the response closes the connection.
#[derive(Debug)]
pub struct OpenResponse {
    /// The status code. Errors and redirects are also possible.
    pub status: StatusCode,
    /// The headers, without hop-by-hop headers.
    pub headers: HeaderMap,
    body: Incoming,
    /// The connection ends with its last request and with the sender of requests.
    _sender: http1::SendRequest<Full<Bytes>>,
}

impl OpenResponse {
    /// Waits for the next bytes of the body. Returns `None` at the end of the body.
    ///
    /// # Errors
    /// Returns the reason if the connection fails before the end of the body.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| error.to_string())?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

/// The reason why there is no complete response.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The body of the response exceeds the limit.
    #[error("the response is too large")]
    TooLarge,
    /// The exchange failed. The text of the error is for the log.
    #[error("{0}")]
    Failed(String),
}

/// Sends a request and reads its response. The body of the response can have at most
/// `max_body_size` bytes. Dropping the future closes the connection.
pub(super) async fn exchange(
    stream: Box<dyn Io>,
    request: http::Request<Full<Bytes>>,
    max_body_size: usize,
) -> Result<Response, Error> {
    let (mut sender, connection) = handshake(stream).await?;
    let mut response = pin!(async {
        let (parts, body) = sender
            .send_request(request)
            .await
            .map_err(failed)?
            .into_parts();
        if body.size_hint().lower() > max_body_size as u64 {
            return Err(Error::TooLarge);
        }
        let body = Limited::new(body, max_body_size).collect().await;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Error::TooLarge
            } else {
                failed(error)
            }
        })?;
        Ok(Response {
            status: parts.status,
            headers: end_to_end(parts.headers),
            body: body.to_bytes(),
        })
    });
    tokio::select! {
        // Poll the response first, to read data that arrived before the end of the connection.
        biased;
        result = &mut response => result,
        _ = connection => response.await,
    }
}

/// Sends a request and waits for the head of its response.
pub(super) async fn open(
    stream: Box<dyn Io>,
    request: http::Request<Full<Bytes>>,
) -> Result<OpenResponse, Error> {
    let (mut sender, connection) = handshake(stream).await?;
    // The response reports the failure of the connection.
    tokio::spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await.map_err(failed)?;
    let (parts, body) = response.into_parts();
    Ok(OpenResponse {
        status: parts.status,
        headers: end_to_end(parts.headers),
        body,
        _sender: sender,
    })
}

type Connection = http1::Connection<TokioIo<Box<dyn Io>>, Full<Bytes>>;

async fn handshake(
    stream: Box<dyn Io>,
) -> Result<(http1::SendRequest<Full<Bytes>>, Connection), Error> {
    let handshake = http1::Builder::new()
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_SIZE)
        .handshake(TokioIo::new(stream))
        .await;
    handshake.map_err(failed)
}

/// Removes the hop-by-hop headers.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    for name in HOP_BY_HOP_HEADERS {
        headers.remove(name);
    }
    headers
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}
