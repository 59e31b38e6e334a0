//! Serves one HTTP/2 connection. This module adds limits to hyper and h2. The requests pass through
//! the same [`Handler`] as the requests of HTTP/1.
//!
//! h2 0.4.20 itself limits frames (16 KiB), header lists, CONTINUATION frames, small DATA frames,
//! and streams that are reset before hyper accepts them. h2 reads no further frame before the
//! acknowledgements of PING and SETTINGS frames are written. h2 rejects requests with
//! connection-specific headers, with invalid pseudo-headers, and with a body whose length differs
//! from `Content-Length`. After a complete response to an unread body, h2 resets the stream with
//! `NO_ERROR`.

mod frames;
mod progress;
mod response_body;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::frames::FrameStream;
use self::progress::{Progress, Timeout, Timer};
use self::response_body::StreamBody;
use crate::client::Peer;
use crate::client_connections::ClientConnections;
use crate::handler::Handler;
use crate::listener::Role;
use crate::stream::MAX_HEAD;

/// The maximum number of concurrent requests on a connection. RFC 9113 recommends at least 100.
const MAX_STREAMS: u32 = 100;
/// The maximum size of the unread data of all request bodies of a connection, in bytes. The value
/// limits the memory of the connection. The value also limits the speed of an upload: at most this
/// number of bytes can arrive per round trip.
const WINDOW: u32 = 256 * 1024;
/// The maximum size of the unsent data of a response that h2 requests from the response's body, in
/// bytes.
const SEND_BUFFER: usize = 64 * 1024;
/// The maximum number of streams that h2 resets because of errors of the client, before h2 closes
/// the connection.
const MAX_RESETS: usize = 256;

/// The values that the connections of a server share.
#[derive(Clone)]
pub(crate) struct Context {
    /// The number of requests that each client has in progress.
    pub(crate) requests: Arc<ClientConnections>,
    /// The tasks of the connections and of their requests.
    pub(crate) tasks: TaskTracker,
    /// The token that aborts requests at the end of the shutdown grace period.
    pub(crate) abort: CancellationToken,
}

/// Serves a connection until it ends. When `stop` is cancelled, the connection ends after its
/// current requests.
pub(crate) async fn serve<H: Handler>(
    handler: &H,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    role: Role,
    context: &Context,
    stop: &CancellationToken,
) {
    let config = &handler.server().config;
    let progress = Progress::new(config.header_timeout, config.idle_timeout);
    let stream = FrameStream::new(stream, Arc::clone(&progress), config.idle_timeout);
    let service = service_fn({
        let (handler, progress) = (handler.clone(), Arc::clone(&progress));
        let requests = Arc::clone(&context.requests);
        move |request: Request<Incoming>| {
            let permit = requests.try_acquire(peer.address);
            let is_refused = permit.is_none() && !handler.server().trusted_proxies.trusts(peer);
            let active = progress.begin_request(permit);
            let handler = handler.clone();
            async move {
                if is_refused {
                    active.refuse();
                    // A client can repeat a refused request (RFC 9113, section 8.7).
                    return Err(h2::Error::from(h2::Reason::REFUSED_STREAM));
                }
                let response = respond(&handler, peer, role, request).await;
                Ok(response.map(|body| StreamBody::new(body, active)))
            }
        }
    });
    let executor = Spawn(context.clone());
    let connection = http2::Builder::new(executor)
        .max_concurrent_streams(MAX_STREAMS)
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW)
        .max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX))
        .max_send_buf_size(SEND_BUFFER)
        .max_local_error_reset_streams(MAX_RESETS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut timer = Timer::new(&progress);
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "HTTP/2 connection ended early");
                }
                return;
            }
            timeout = poll_fn(|cx| timer.poll_timeout(cx)) => match timeout {
                Timeout::Idle => {
                    progress.close();
                    connection.as_mut().graceful_shutdown();
                }
                Timeout::Close(reason) => {
                    tracing::debug!(reason, peer = %peer.address, "closed an HTTP/2 connection");
                    return;
                }
            },
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                progress.close();
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Returns the response to a request.
async fn respond<H: Handler>(
    handler: &H,
    peer: Peer,
    role: Role,
    mut request: Request<Incoming>,
) -> Response<H::Body> {
    join_cookies(request.headers_mut());
    let mut response = handler.handle(peer, role, request).await;
    // HTTP/2 has no Connection header (RFC 9113, section 8.2.2). If the body was not read to its
    // end, h2 resets the stream.
    response.headers_mut().remove(header::CONNECTION);
    response
}

/// Joins the values of `Cookie`, which a client can send as several headers (RFC 9113, section
/// 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<_> = headers.get_all(header::COOKIE).iter().collect();
    if cookies.len() > 1 {
        let values: Vec<&[u8]> = cookies.iter().map(|value| value.as_bytes()).collect();
        if let Ok(joined) = HeaderValue::from_bytes(&values.join(&b"; "[..])) {
            headers.insert(header::COOKIE, joined);
        }
    }
}

/// Spawns the tasks of requests.
#[derive(Clone)]
struct Spawn(Context);

impl<F> Executor<F> for Spawn
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, request: F) {
        let abort = self.0.abort.clone();
        self.0.tasks.spawn(abort.run_until_cancelled_owned(request));
    }
}
