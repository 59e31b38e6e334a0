//! A wrapper of the stream that hyper reads and writes. It provides features that hyper 1.12 does
//! not have:
//!
//! - It records the bytes of each request's head for the checks in [`super::framing`].
//! - It has a short timeout for a head that has started to arrive, and a long timeout for an idle
//!   connection. hyper has only one timeout.
//! - It limits the time for which the client can block a write.
//! - It notices that the client has closed the connection during a response without a known length.
//! - It discards hyper's error responses, which have an empty body and cannot be configured.
//!   [`super::connection`] sends a response with a body instead.
//!
//! The wrapper must find the bytes of each request's head, even if several requests arrive
//! together. The wrapper does not parse bodies. Instead, the wrapper ensures that one read of hyper
//! contains bytes of only one request. This method relies on these properties of hyper 1.12.0
//! (`proto/h1/io.rs`, `decode.rs`) and httparse 1.10.1:
//!
//! - hyper reads from the stream only if its buffer is empty or contains an incomplete head.
//! - hyper reads no byte of the next head before the response to the current request is complete.
//!   The exception is a connection that hyper closes after the response.
//! - A head ends at its first empty line. A body with `Content-Length` ends after that number of
//!   bytes. A chunked body ends with CR LF CR LF.
//!
//! Therefore each read ends at the next empty line or at the end of the body. If a new version of
//! hyper or httparse changes a property, the recorded bytes are not exactly one head. The service
//! then rejects the request.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::write_timeout::WriteTimeout;

/// The maximum size of a request's head, in bytes.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// The state of a connection. The HTTP service and the stream of the connection share this value.
pub(crate) struct ConnectionState {
    inner: Mutex<Inner>,
    /// Whether the response has no known length.
    is_endless: AtomicBool,
    head_timeout: Duration,
    idle_timeout: Duration,
}

struct Inner {
    phase: Phase,
    /// The deadline of the next request's head. `None` during a request.
    deadline: Option<Instant>,
    /// The received bytes of the next request's head. The length is at most [`MAX_HEAD`]. The bytes
    /// can contain a credential.
    head: Vec<u8>,
    /// The number of unread bytes of the request's body. `None` if the body is chunked.
    body: Option<u64>,
    scanner: LineScanner,
    has_trailers: bool,
    hyper_responded: bool,
    unread: bool,
}

/// The phase of a request and its response on a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// hyper waits for the head of a request.
    Head,
    /// hyper has passed a request to the HTTP service, and waits for the complete response.
    Request,
    /// hyper has the complete response and writes the remaining bytes.
    Flush,
}

impl ConnectionState {
    /// Creates the state of a new connection. The client must send its first byte within the
    /// shorter of the two timeouts.
    pub(crate) fn new(head_timeout: Duration, idle_timeout: Duration) -> Self {
        let first = Instant::now() + head_timeout.min(idle_timeout);
        Self {
            inner: Mutex::new(Inner {
                phase: Phase::Head,
                deadline: Some(first),
                head: Vec::new(),
                body: None,
                scanner: LineScanner::default(),
                has_trailers: false,
                hyper_responded: false,
                unread: false,
            }),
            is_endless: AtomicBool::new(false),
            head_timeout,
            idle_timeout,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that hyper has passed a request to the HTTP service. `length` is the length of the
    /// request's body, or `None` for a chunked body. Returns the bytes of the request's head.
    pub(crate) fn begin_request(&self, length: Option<u64>) -> Vec<u8> {
        let mut inner = self.lock();
        self.is_endless.store(false, Ordering::Relaxed);
        inner.phase = Phase::Request;
        inner.body = length;
        inner.scanner = LineScanner::default();
        inner.has_trailers = false;
        inner.deadline = None;
        std::mem::take(&mut inner.head)
    }

    /// Records that hyper has found a trailer section after a chunked body.
    pub(crate) fn record_trailers(&self) {
        self.lock().has_trailers = true;
    }

    /// Returns `true` if hyper and another recipient can find different ends of the chunked body. A
    /// recipient can find an earlier end if the recipient accepts a bare LF as the end of a line.
    /// hyper itself accepts a bare LF only in the trailer section of a chunked body.
    pub(crate) fn is_body_end_ambiguous(&self) -> bool {
        let inner = self.lock();
        inner.has_trailers && inner.scanner.lenient_empty_line
    }

    /// Records that the response to the current request has no known length. Such a response ends
    /// when the client closes its side of the connection.
    pub(crate) fn begin_endless_response(&self) {
        self.is_endless.store(true, Ordering::Relaxed);
    }

    /// Returns `true` during a response without a known length.
    fn in_endless_response(&self) -> bool {
        self.is_endless.load(Ordering::Relaxed) && self.lock().phase == Phase::Request
    }

    /// Records that hyper has the complete response.
    pub(crate) fn finish_response(&self) {
        self.lock().phase = Phase::Flush;
    }

    /// Records that hyper has written all of its output.
    fn flushed(&self) {
        let mut inner = self.lock();
        if inner.phase == Phase::Flush {
            inner.phase = Phase::Head;
            let timeout = if inner.head.is_empty() {
                self.idle_timeout
            } else {
                self.head_timeout
            };
            inner.deadline = Some(Instant::now() + timeout);
        }
    }

    /// Returns `true` if at least one byte of the next request's head has arrived.
    pub(crate) fn head_started(&self) -> bool {
        !self.lock().head.is_empty()
    }

    /// Returns `true` if hyper has rejected the bytes of a head. The stream then discards hyper's
    /// response.
    pub(crate) fn hyper_responded(&self) -> bool {
        self.lock().hyper_responded
    }

    /// Records that the server might leave data of the client unread.
    pub(crate) fn leave_unread(&self) {
        self.lock().unread = true;
    }

    /// Returns `true` if the server might leave data of the client unread.
    pub(crate) fn unread(&self) -> bool {
        self.lock().unread
    }

    /// Records received bytes, and returns the number of bytes that hyper can read. If `bytes` is
    /// not empty, this number is at least one.
    fn received(&self, bytes: &[u8]) -> usize {
        let mut inner = self.lock();
        match (inner.phase, &mut inner.body) {
            (Phase::Request, Some(left)) if *left > 0 => {
                let taken =
                    usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= taken as u64;
                return taken;
            }
            (Phase::Request, None) => return inner.scanner.take(bytes, true),
            _ => {}
        }
        if inner.head.is_empty() && inner.phase == Phase::Head {
            inner.deadline = Some(Instant::now() + self.head_timeout);
        }
        let taken = inner.scanner.take(bytes, false);
        let space = MAX_HEAD.saturating_sub(inner.head.len());
        inner.head.extend_from_slice(&bytes[..taken.min(space)]);
        taken
    }

    /// Returns `true` if the stream must discard the output of hyper. While hyper waits for a head,
    /// the output contains only error responses.
    fn discards(&self) -> bool {
        let mut inner = self.lock();
        inner.hyper_responded |= inner.phase == Phase::Head;
        inner.hyper_responded
    }
}

/// The timer for the head of the next request on a connection. The timer runs on the task of the
/// connection, because only this task changes the deadline.
pub(crate) struct HeadTimer {
    state: Arc<ConnectionState>,
    sleep: Pin<Box<Sleep>>,
}

impl HeadTimer {
    pub(crate) fn new(state: Arc<ConnectionState>) -> Self {
        let until = state.lock().deadline;
        let sleep = Box::pin(sleep_until(until.unwrap_or_else(Instant::now)));
        Self { state, sleep }
    }

    /// Returns `Ready` if the timeout for the head of the next request has expired. Otherwise, the
    /// task is woken when this timeout expires. The caller must call this function after each step
    /// of the connection.
    ///
    /// A later deadline does not change a running timer, because changing a timer takes longer than
    /// ignoring one early expiry.
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(until) = self.state.lock().deadline else {
            return Poll::Pending;
        };
        loop {
            if until < self.sleep.deadline() {
                self.sleep.as_mut().reset(until);
            }
            ready!(self.sleep.as_mut().poll(cx));
            if self.sleep.deadline() == until {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(until);
        }
    }
}

/// A scanner that finds empty lines.
#[derive(Default)]
struct LineScanner {
    /// The last three bytes of the scanned data.
    last: [u8; 3],
    /// Whether the scanned data contains an empty line. For this field, a bare LF also counts as
    /// the end of a line.
    lenient_empty_line: bool,
}

impl LineScanner {
    /// Returns the number of bytes up to the end of the next empty line. Returns the length of
    /// `bytes` if there is no empty line. If `strict` is true, only CR LF CR LF counts as an empty
    /// line.
    fn take(&mut self, bytes: &[u8], strict: bool) -> usize {
        for end in memchr::memchr_iter(b'\n', bytes) {
            let found = match last_three(self.last, &bytes[..end]) {
                [b'\r', b'\n', b'\r'] => true,
                [_, b'\n', b'\r'] | [_, _, b'\n'] => {
                    self.lenient_empty_line = true;
                    !strict
                }
                _ => false,
            };
            if found {
                self.last = last_three(self.last, &bytes[..=end]);
                return end + 1;
            }
        }
        self.last = last_three(self.last, bytes);
        bytes.len()
    }
}

/// Returns the last three bytes of the concatenation of `before` and `bytes`.
fn last_three(before: [u8; 3], bytes: &[u8]) -> [u8; 3] {
    match *bytes {
        [] => before,
        [c] => [before[1], before[2], c],
        [b, c] => [before[2], b, c],
        [.., a, b, c] => [a, b, c],
    }
}

/// A stream that updates the state of its connection.
pub(crate) struct HttpStream<T> {
    inner: T,
    state: Arc<ConnectionState>,
    /// Received bytes that hyper has not yet read.
    held_back: Bytes,
    write_timeout: WriteTimeout,
}

impl<T> HttpStream<T> {
    /// Wraps a stream. A client can block a write for at most `write_timeout`.
    pub(crate) fn new(inner: T, state: Arc<ConnectionState>, write_timeout: Duration) -> Self {
        Self {
            inner,
            state,
            held_back: Bytes::new(),
            write_timeout: WriteTimeout::new(write_timeout),
        }
    }

    pub(crate) fn into_inner(self) -> T {
        self.inner
    }
}

impl<T: AsyncRead + Unpin> HttpStream<T> {
    /// Returns an error if the client has closed its side of the connection. Otherwise, the task is
    /// woken when the client sends data or closes. hyper does not read during a response.
    fn check_open(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.held_back.is_empty() {
            return Ok(());
        }
        let mut byte = [0; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        if Pin::new(&mut self.inner)
            .poll_read(cx, &mut buffer)?
            .is_pending()
        {
            return Ok(());
        }
        if buffer.filled().is_empty() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // The next request has arrived early.
        self.held_back = Bytes::copy_from_slice(buffer.filled());
        Ok(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for HttpStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.held_back.is_empty() {
            let length = self.held_back.len().min(buf.remaining());
            let taken = self.state.received(&self.held_back[..length]);
            buf.put_slice(&self.held_back.split_to(taken));
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let received = &buf.filled()[before..];
        if !received.is_empty() {
            let taken = self.state.received(received);
            self.held_back = Bytes::copy_from_slice(&received[taken..]);
            buf.set_filled(before + taken);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for HttpStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.state.discards() {
            return Poll::Ready(Ok(buf.len()));
        }
        let poll = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.write_timeout.limit(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.state.discards() {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.write_timeout.limit(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        ready!(self.write_timeout.limit(cx, poll))?;
        if self.state.in_endless_response() {
            self.check_open(cx)?;
        }
        self.state.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::timeout;

    use super::*;

    const TIMEOUT: Duration = Duration::from_mins(1);

    /// Data that arrives in pieces of `step` bytes.
    struct ByteStream<'b> {
        bytes: &'b [u8],
        step: usize,
    }

    impl AsyncRead for ByteStream<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let length = self.step.min(self.bytes.len()).min(buf.remaining());
            let (piece, rest) = self.bytes.split_at(length);
            buf.put_slice(piece);
            self.bytes = rest;
            Poll::Ready(Ok(()))
        }
    }

    type TestStream<'b> = HttpStream<ByteStream<'b>>;

    fn stream(bytes: &str, step: usize) -> TestStream<'_> {
        let state = Arc::new(ConnectionState::new(TIMEOUT, TIMEOUT));
        let bytes = bytes.as_bytes();
        HttpStream::new(ByteStream { bytes, step }, state, TIMEOUT)
    }

    /// Reads until `is_end` returns `true` for everything that was read, or until the end of the
    /// data.
    async fn read(stream: &mut TestStream<'_>, is_end: impl Fn(&str) -> bool) -> String {
        let mut all = String::new();
        while !is_end(&all) {
            let mut buffer = [0; 1000];
            let length = stream.read(&mut buffer).await.unwrap();
            if length == 0 {
                break;
            }
            all.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
        }
        all
    }

    async fn head(stream: &mut TestStream<'_>) -> String {
        read(stream, |read| {
            read.ends_with("\n\r\n") || read.ends_with("\n\n")
        })
        .await
    }

    /// Returns the heads and bodies that hyper reads from `bytes` if `step` bytes arrive at a time.
    /// Each request has a body of `length` bytes, or a chunked body that ends with `end`.
    async fn split(bytes: &str, length: Option<usize>, end: &str, step: usize) -> Vec<String> {
        let mut stream = stream(bytes, step);
        let mut parts = Vec::new();
        loop {
            let head = head(&mut stream).await;
            if head.is_empty() {
                break;
            }
            let state = Arc::clone(&stream.state);
            let recorded = state.begin_request(length.map(|length| length as u64));
            assert_eq!(recorded, head.as_bytes());
            let body = match length {
                Some(length) => read(&mut stream, |read| read.len() >= length).await,
                None => read(&mut stream, |read| read.ends_with(end)).await,
            };
            state.finish_response();
            state.flushed();
            parts.extend([head, body]);
        }
        parts.retain(|part| !part.is_empty());
        parts
    }

    #[tokio::test]
    async fn a_read_never_contains_bytes_of_two_requests() {
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let bare = "GET / HTTP/1.1\nHost: a\n\n";
        // The data contains empty lines and the last chunk of another body.
        let end = "\r\nefgh\r\n0\r\nT: x\r\n\r\n";
        let chunks = format!("3;x=y\r\n\n\r\n\r\n10\r\n0\r\n\r\nabcd\n\n\r\n\r\n{end}");
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(split(&get.repeat(3), Some(0), "", step).await, [get; 3]);
            assert_eq!(split(&bare.repeat(2), Some(0), "", step).await, [bare; 2]);
            let after_line = format!("\r\n{get}{get}");
            let expected = [&after_line[..get.len() + 2], get];
            assert_eq!(split(&after_line, Some(0), "", step).await, expected);
            let with_length = format!("{get}GET /{get}GET /");
            let expected = [get, "GET /", get, "GET /"];
            assert_eq!(split(&with_length, Some(5), "", step).await, expected);
            let chunked = format!("{get}{chunks}{get}{chunks}");
            let expected = [get, &chunks, get, &chunks];
            assert_eq!(split(&chunked, None, end, step).await, expected);
        }
    }

    #[tokio::test]
    async fn a_client_ends_a_response_without_a_known_length() {
        for is_endless in [false, true] {
            let (client, server) = duplex(64);
            let state = Arc::new(ConnectionState::new(TIMEOUT, TIMEOUT));
            let mut stream = HttpStream::new(server, Arc::clone(&state), TIMEOUT);
            state.begin_request(Some(0));
            if is_endless {
                state.begin_endless_response();
            }
            stream.flush().await.unwrap();
            drop(client);
            assert_eq!(stream.flush().await.is_err(), is_endless);
        }
    }

    #[tokio::test]
    async fn an_empty_line_with_a_bare_lf_makes_the_end_of_a_trailer_section_ambiguous() {
        for (body, ambiguous) in [
            ("0\r\nX: y\r\n\r\n", false),
            ("4\r\n{\n}\t\r\n0\r\nX: y\nZ: z\r\n\r\n", false),
            ("4\r\n\r\n\r\n\r\n0\r\nX: y\r\n\r\n", false),
            ("0\r\nX: y\n\r\nGET / HTTP/1.1\r\n\r\n", true),
            ("0\r\nX: y\r\n\nGET / HTTP/1.1\r\n\r\n", true),
            ("0\r\nX: y\n\nGET / HTTP/1.1\r\n\r\n", true),
            ("0\r\n\nGET / HTTP/1.1\r\n\r\n", true),
        ] {
            for step in [1, 2, 1000] {
                let mut stream = stream(body, step);
                stream.state.begin_request(None);
                read(&mut stream, |_| false).await;
                assert!(!stream.state.is_body_end_ambiguous(), "no trailers");
                stream.state.record_trailers();
                let found = stream.state.is_body_end_ambiguous();
                assert_eq!(found, ambiguous, "{body:?} {step}");
            }
        }
    }

    #[test]
    fn a_head_that_has_started_has_the_short_timeout() {
        let state = ConnectionState::new(TIMEOUT, 10 * TIMEOUT);
        let is_short = || {
            let until = state.lock().deadline?;
            Some(until - Instant::now() <= TIMEOUT)
        };
        assert_eq!(is_short(), Some(true), "before the first request");
        state.begin_request(Some(0));
        assert_eq!(is_short(), None, "during a request");
        state.finish_response();
        assert_eq!(is_short(), None);
        state.flushed();
        assert_eq!(is_short(), Some(false));
        state.received(b"G");
        assert_eq!(is_short(), Some(true));
        let until = state.lock().deadline;
        state.received(b"ET");
        assert_eq!(state.lock().deadline, until, "not extended");
    }

    #[tokio::test]
    async fn the_timer_expires_at_the_deadline_after_the_last_change() {
        let short = Duration::from_millis(30);
        let state = Arc::new(ConnectionState::new(short, TIMEOUT));
        let mut timer = HeadTimer::new(Arc::clone(&state));
        let mut expires = async |limit| {
            let expired = poll_fn(|cx| timer.poll_expired(cx));
            timeout(limit, expired).await.is_ok()
        };
        state.begin_request(Some(0));
        assert!(!expires(2 * short).await, "during a request");
        state.finish_response();
        state.flushed();
        assert!(!expires(2 * short).await, "the deadline is later");
        state.received(b"G");
        assert!(expires(TIMEOUT / 2).await, "the deadline is earlier");
    }
}
