//! Serves one connection: hyper with size and time limits, and a graceful close, so that a client that is still writing receives its response.
//!
//! hyper 1.12 has one timeout for the head of a request, which starts when the connection becomes idle. The service needs two timeouts: a long one for idle
//! connections and a short one for a head that has started to arrive. Therefore hyper gets a custom timer ([`HeadTimer`]).

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use latchmail_core::clock::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::framing;
use super::response_body::ResponseBody;
use super::state::State;
use super::wire::{Exchange, MAX_HEAD, Wire};
use super::{client, pipeline, response};
use crate::rejection::Rejection;

/// The size of hyper's read buffer, in bytes.
const MAX_BUFFER: usize = 2 * MAX_HEAD;
/// The maximum number of headers of a request.
const MAX_HEADERS: usize = 100;
/// Limits for discarding unread data after a response: the number of bytes, the total time, and the time without a byte.
const LINGER_BYTES: usize = 64 * 1024 * 1024;
const LINGER: Duration = Duration::from_secs(10);
const LINGER_SILENCE: Duration = Duration::from_secs(2);

/// Serves a connection until it ends. After `stop` is cancelled, ends the connection after the current request.
pub(crate) async fn serve<S: State>(
    state: Arc<S>,
    stream: TcpStream,
    peer: IpAddr,
    stop: &CancellationToken,
) {
    let config = &state.http().config;
    let exchange = Arc::new(Exchange::default());
    let refusing = Arc::clone(&state);
    let wire = Wire::new(
        stream,
        Arc::clone(&exchange),
        Arc::new(move |status| refusal(refusing.http().clock.now(), status)),
        config.idle_timeout,
    );
    let timer = HeadTimer {
        exchange: Arc::clone(&exchange),
        head: config.header_timeout,
        idle: config.idle_timeout,
    };
    let serving = Arc::clone(&state);
    let seen = Arc::clone(&exchange);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let state = Arc::clone(&serving);
        let exchange = Arc::clone(&seen);
        let head = exchange.open(request.body().size_hint().exact());
        if let Some(unclear) = framing::unclear(&head) {
            request.extensions_mut().insert(unclear);
        }
        Box::pin(async move {
            let response = pipeline::handle(&state, peer, request).await;
            if closes(&response) {
                exchange.leave_unread();
            }
            Ok::<_, Infallible>(response.map(|body| Answer { body, exchange }))
        })
    });
    let mut connection = http1::Builder::new()
        .timer(timer)
        // A client can shut down its side of the connection and wait for the response. A client that disconnected looks the same. Its request continues until
        // the route's deadline.
        .half_close(true)
        .header_read_timeout(config.header_timeout)
        .max_buf_size(MAX_BUFFER)
        .max_header_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(wire), service);
    let ended = tokio::select! {
        ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => ended,
        () = stop.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|cx| connection.poll_without_shutdown(cx)).await
        }
    };
    let mut stream = connection.into_parts().io.into_inner().into_inner();
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
        if error.is_timeout() && exchange.head_began().is_some() {
            exchange.leave_unread();
            let late = refusal(state.http().clock.now(), StatusCode::REQUEST_TIMEOUT);
            let _ = timeout(LINGER_SILENCE, stream.write_all(&late)).await;
        }
    }
    end(stream, exchange.unread()).await;
}

/// Closes a connection. If the connection were closed while its peer is writing, it would be reset and the peer could lose the response. Therefore unread data
/// is discarded first, within limits.
async fn end(mut stream: TcpStream, unread: bool) {
    let _ = stream.shutdown().await;
    if !unread {
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

fn closes<B>(response: &Response<B>) -> bool {
    response
        .headers()
        .get(header::CONNECTION)
        .is_some_and(|value| value == "close")
}

/// Returns the complete response, head and body, to data that hyper rejected before it became a request.
fn refusal(now: Timestamp, status: StatusCode) -> Bytes {
    let id = client::new_id();
    tracing::info!(%id, status = status.as_u16(), "rejected an invalid request");
    let text = match status {
        StatusCode::REQUEST_TIMEOUT => "The request did not arrive in time",
        StatusCode::URI_TOO_LONG => "The request's URL is too long",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "The request's headers are too large",
        _ => "The request is not valid HTTP",
    };
    let mut response = response::from_result(Err(Rejection::new(status, text)));
    let headers = response.headers_mut();
    response::add_common_headers(&id, headers);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if let Ok(date) = HeaderValue::from_str(&now.http()) {
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

/// The body of a response, which reports when hyper has received all of it.
struct Answer {
    body: ResponseBody,
    exchange: Arc<Exchange>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.exchange.answered();
    }
}

/// The timer that hyper uses for the head of a request: `idle` until the first byte, and `head` after it. Before the first request of a connection, the
/// shorter of both applies until the first byte.
struct HeadTimer {
    exchange: Arc<Exchange>,
    head: Duration,
    idle: Duration,
}

impl hyper::rt::Timer for HeadTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        // hyper calls this function when it starts to wait for a head.
        let idle = if self.exchange.used() {
            self.idle
        } else {
            self.idle.min(self.head)
        };
        let idle_until = Instant::now() + idle;
        Box::pin(HeadSleep {
            exchange: Arc::clone(&self.exchange),
            head: self.head,
            idle_until,
            sleep: Box::pin(sleep_until(idle_until)),
        })
    }

    fn sleep_until(&self, _: std::time::Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep(self.head)
    }
}

struct HeadSleep {
    exchange: Arc<Exchange>,
    head: Duration,
    idle_until: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl hyper::rt::Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let until = match self.exchange.head_began() {
            Some(began) => began + self.head,
            None => self.idle_until,
        };
        if self.sleep.deadline() != until {
            self.sleep.as_mut().reset(until);
        }
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(())
    }
}
