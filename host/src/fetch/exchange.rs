//! One request and the whole of its answer over a connection of their own (HTTP/1.1), within bounds.

use std::pin::pin;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Body as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::dial::Io;

/// Headers of an answer, and the bytes of all of them with the status.
const MOST_HEADERS: usize = 128;
const LARGEST_HEAD: usize = 64 * 1024;

/// What is of the connection, in either direction (RFC 9110, section 7.6.1), with what belongs to it by custom.
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

/// An answer.
#[derive(Debug)]
pub struct Response {
    /// Any.
    pub status: StatusCode,
    /// Without those of the connection.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Its body is larger than may be.
    #[error("the answer is too large")]
    TooLarge,
    /// For the log.
    #[error("{0}")]
    Broken(String),
}

/// Sends a request and reads its answer. Dropped, it closes the connection.
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
        // Driven to its end first: what was received before the connection closed is still there to be read.
        biased;
        answer = &mut answer => answer,
        _ = connection => answer.await,
    }
}

fn broken(error: impl std::fmt::Display) -> Error {
    Error::Broken(error.to_string())
}
