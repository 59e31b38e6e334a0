//! One HTTP/1.1 request and its whole response over a new connection, within limits.

use std::pin::pin;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Body as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::dial::Io;

/// Maximum number of response headers, and maximum size of status line and headers in bytes.
const MOST_HEADERS: usize = 128;
const LARGEST_HEAD: usize = 64 * 1024;

/// Headers of the connection in either direction (RFC 9110, section 7.6.1), and headers that belong to them by convention.
pub(super) const OF_THE_CONNECTION: [HeaderName; 8] = [
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
    /// Any status.
    pub status: StatusCode,
    /// Headers, without those of the connection.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Why there is no complete response.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The body exceeds the limit.
    #[error("the response is too large")]
    TooLarge,
    /// The exchange failed. The message is for the log.
    #[error("{0}")]
    Broken(String),
}

/// Sends a request and reads its response, with a body of at most `largest` bytes. Dropping the future closes the connection.
pub(super) async fn exchange(
    stream: Box<dyn Io>,
    request: http::Request<Full<Bytes>>,
    largest: usize,
) -> Result<Response, Error> {
    let handshake = http1::Builder::new()
        .max_headers(MOST_HEADERS)
        .max_buf_size(LARGEST_HEAD)
        .handshake(TokioIo::new(stream))
        .await;
    let (mut sender, connection) = handshake.map_err(broken)?;
    let mut answer = pin!(async {
        let (parts, body) = sender
            .send_request(request)
            .await
            .map_err(broken)?
            .into_parts();
        if body.size_hint().lower() > largest as u64 {
            return Err(Error::TooLarge);
        }
        let body = Limited::new(body, largest).collect().await;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Error::TooLarge
            } else {
                broken(error)
            }
        })?;
        let mut headers = parts.headers;
        for name in OF_THE_CONNECTION {
            headers.remove(name);
        }
        Ok(Response {
            status: parts.status,
            headers,
            body: body.to_bytes(),
        })
    });
    tokio::select! {
        // Poll the response first, to read data that arrived before the connection closed.
        biased;
        answer = &mut answer => answer,
        _ = connection => answer.await,
    }
}

fn broken(error: impl std::fmt::Display) -> Error {
    Error::Broken(error.to_string())
}
