//! Serves one connection. This module adds size limits, time limits and a graceful close to hyper.
//! Because of the graceful close, a client that is still sending data can receive the response.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Either};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use latchmail_core::codes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::client::Peer;
use crate::error::RequestError;
use crate::framing;
use crate::handler::Handler;
use crate::listener::Role;
use crate::stream::{ConnectionState, HeadTimer, HttpStream, MAX_HEAD};

/// The size of hyper's read buffer, in bytes.
const MAX_BUFFER: usize = 2 * MAX_HEAD;
/// The limits for discarding unread data after a response. `LINGER` limits the total time, and
/// `LINGER_SILENCE` limits the time without a received byte.
const LINGER_BYTES: usize = 64 * 1024 * 1024;
const LINGER: Duration = Duration::from_secs(10);
const LINGER_SILENCE: Duration = Duration::from_secs(2);

/// Serves a connection until it ends. When `stop` is cancelled, the connection ends after its
/// current request.
pub(crate) async fn serve<H: Handler>(
    handler: &H,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    role: Role,
    stop: &CancellationToken,
) {
    let config = &handler.server().config;
    let connection_state = Arc::new(ConnectionState::new(
        config.header_timeout,
        config.idle_timeout,
    ));
    let stream = HttpStream::new(stream, Arc::clone(&connection_state), config.idle_timeout);
    let service = service_fn(|mut request: Request<Incoming>| {
        // The state of the connection is updated before this closure creates the future, because
        // hyper can read the body before hyper polls the future.
        let head = connection_state.begin_request(request.body().size_hint().exact());
        if let Some(ambiguity) = framing::ambiguity(&head) {
            request.extensions_mut().insert(ambiguity);
        }
        let (handler, connection_state) = (handler.clone(), Arc::clone(&connection_state));
        Box::pin(async move {
            let response = respond(&handler, peer, role, request, &connection_state).await;
            if response.body().size_hint().exact().is_none() {
                connection_state.begin_endless_response();
            }
            let finish = FinishResponse(connection_state);
            // The closure owns `finish`, so `finish` is dropped together with the body.
            Ok::<_, Infallible>(response.map(|body| {
                body.map_err(move |error| {
                    let _ = &finish;
                    error
                })
            }))
        })
    });
    let mut connection = http1::Builder::new()
        // A client can shut down its sending side of the connection and wait for the response. The
        // server cannot distinguish such a client from a disconnected client. So a request of a
        // disconnected client continues until the deadline of its route. A response without a known
        // length has no deadline, so the stream ends it when the client closes its side.
        .half_close(true)
        .header_read_timeout(None)
        .max_buf_size(MAX_BUFFER)
        .max_header_size(MAX_HEAD)
        .max_headers(framing::MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut head_timer = HeadTimer::new(Arc::clone(&connection_state));
    let mut stopping = false;
    // The status of the response to data that is not a valid request. `None` if no such response is
    // sent.
    let status = loop {
        tokio::select! {
            // `biased` polls the connection first. So a head that has arrived is processed, even if
            // its timeout has expired.
            biased;
            ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => {
                let mut is_too_large = false;
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended early");
                    is_too_large = error.is_parse_too_large();
                }
                let status = if is_too_large {
                    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
                } else {
                    StatusCode::BAD_REQUEST
                };
                break connection_state.hyper_responded().then_some(status);
            }
            () = poll_fn(|cx| head_timer.poll_expired(cx)) => {
                break connection_state.head_started().then_some(StatusCode::REQUEST_TIMEOUT);
            }
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                pin::Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    let mut stream = connection.into_parts().io.into_inner().into_inner();
    if let Some(status) = status {
        let response = rejection(handler, role, status);
        let _ = timeout(LINGER_SILENCE, stream.write_all(&response)).await;
    }
    close(stream, status.is_some() || connection_state.unread()).await;
}

/// Returns the response to a request.
async fn respond<H: Handler>(
    handler: &H,
    peer: Peer,
    role: Role,
    request: Request<Incoming>,
    connection_state: &Arc<ConnectionState>,
) -> Response<H::Body> {
    let request = request.map(|body| record_trailers(body, Arc::clone(connection_state)));
    let mut response = handler.handle(peer, role, request).await;
    let headers = response.headers_mut();
    if connection_state.is_body_end_ambiguous() || handler.is_stopping() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if headers
        .get(header::CONNECTION)
        .is_some_and(|value| value == "close")
    {
        connection_state.leave_unread();
    }
    response
}

/// Records whether a chunked body has trailers.
fn record_trailers(
    body: Incoming,
    connection_state: Arc<ConnectionState>,
) -> impl Body<Data = Bytes, Error: Send> + Send + Unpin {
    // `map_frame` removes the exact size of a body, so a body with an exact size is returned
    // unchanged.
    if body.size_hint().exact().is_some() {
        return Either::Left(body);
    }
    Either::Right(body.map_frame(move |frame| {
        if frame.is_trailers() {
            connection_state.record_trailers();
        }
        frame
    }))
}

/// Closes a connection. First discards unread data, within limits. Otherwise the operating system
/// would reset the connection, and the client could lose the response.
async fn close(mut stream: impl AsyncRead + AsyncWrite + Unpin, unread: bool) {
    // With TLS, the shutdown waits until the client has read all data.
    if timeout(LINGER_SILENCE, stream.shutdown()).await.is_err() || !unread {
        return;
    }
    let until = Instant::now() + LINGER;
    let mut left = LINGER_BYTES;
    let mut sink = vec![0; 64 * 1024];
    while left > 0 {
        let silence = until.min(Instant::now() + LINGER_SILENCE);
        match timeout_at(silence, stream.read(&mut sink)).await {
            Ok(Ok(read)) if read > 0 => left = left.saturating_sub(read),
            _ => return,
        }
    }
}

/// Returns the head and the body of the response to data that is not a valid request.
fn rejection<H: Handler>(handler: &H, role: Role, status: StatusCode) -> Bytes {
    let (code, text) = match status {
        StatusCode::REQUEST_TIMEOUT => {
            (codes::REQUEST_TIMEOUT, "The request did not arrive in time")
        }
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
            codes::HEADERS_TOO_LARGE,
            "The request's headers are too large",
        ),
        _ => (codes::MALFORMED_REQUEST, "The request is not valid HTTP"),
    };
    let mut response = handler.reject(role, RequestError::new(status, code, text));
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if let Ok(date) = HeaderValue::from_str(&handler.server().clock.now().http()) {
        headers.insert(header::DATE, date);
    }
    let mut bytes = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for (name, value) in response.headers() {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    if let Some(Ok(body)) = response.into_body().collect().now_or_never() {
        bytes.extend_from_slice(&body.to_bytes());
    }
    bytes.into()
}

/// A guard. Dropping this value records that hyper has the complete response.
struct FinishResponse(Arc<ConnectionState>);

impl Drop for FinishResponse {
    fn drop(&mut self) {
        self.0.finish_response();
    }
}
