//! A wrapper of a connection. It records the arrival and the bytes of each request's head, limits how long the peer can block a write, and replaces hyper's
//! responses to invalid HTTP with responses in the service's format of errors.
//!
//! hyper receives one request at a time. Data after the request is buffered until hyper reads again.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::boundary::Boundary;

/// The maximum size of a request's head, in bytes.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// The shared state of one connection.
#[derive(Default)]
pub(crate) struct Exchange {
    head: Mutex<Head>,
    /// hyper has returned at least one request.
    used: AtomicBool,
    /// hyper has returned a request whose response is not written yet.
    open: AtomicBool,
    /// hyper has received the complete response.
    answered: AtomicBool,
    /// The peer may still be sending a request's body, or data that hyper rejected.
    unread: AtomicBool,
}

/// The head of the next request.
#[derive(Default)]
struct Head {
    /// The arrival of the first byte.
    began: Option<Instant>,
    /// The bytes as they arrived, up to the maximum size of a head. They may contain a credential.
    bytes: Vec<u8>,
    boundary: Boundary,
}

impl Exchange {
    fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the arrival of the next request's first byte.
    pub(crate) fn head_began(&self) -> Option<Instant> {
        self.head().began
    }

    /// Records that hyper has returned a request with a body of this length, or a chunked body if there is none. Returns the bytes of its head.
    pub(crate) fn open(&self, length: Option<u64>) -> Vec<u8> {
        self.used.store(true, Ordering::Relaxed);
        self.answered.store(false, Ordering::Relaxed);
        self.open.store(true, Ordering::Relaxed);
        let mut head = self.head();
        head.boundary.opened(length);
        head.began = None;
        std::mem::take(&mut head.bytes)
    }

    /// Returns `true` if hyper has returned at least one request.
    pub(crate) fn used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Records that hyper has received the complete response.
    pub(crate) fn answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// Records that the peer may still be sending data that will not be read.
    pub(crate) fn leave_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the peer may still be sending data that will not be read.
    pub(crate) fn unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// Returns how many of the received `bytes` hyper can read now.
    fn received(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut head = self.head();
        let in_head = head.boundary.in_head();
        let taken = head.boundary.take(bytes)?;
        if in_head {
            head.began.get_or_insert_with(Instant::now);
            let room = MAX_HEAD.saturating_sub(head.bytes.len());
            head.bytes.extend_from_slice(&bytes[..taken.min(room)]);
        }
        Ok(taken)
    }

    fn flushed(&self) {
        if self.answered.load(Ordering::Relaxed) {
            self.open.store(false, Ordering::Relaxed);
        }
    }
}

/// Creates the complete response, head and body, to data that hyper rejected with a status.
pub(crate) type Refusal = Arc<dyn Fn(StatusCode) -> Bytes + Send + Sync>;

/// A connection.
pub(crate) struct Wire<T> {
    inner: T,
    exchange: Arc<Exchange>,
    refusal: Refusal,
    /// The data after the request that is being read.
    held: Bytes,
    /// The response that replaces hyper's.
    instead: Bytes,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T> Wire<T> {
    /// Wraps a connection whose peer can block a write for at most `patience`.
    pub(crate) fn new(
        inner: T,
        exchange: Arc<Exchange>,
        refusal: Refusal,
        patience: Duration,
    ) -> Self {
        Self {
            inner,
            exchange,
            refusal,
            held: Bytes::new(),
            instead: Bytes::new(),
            patience,
            stalled: None,
        }
    }

    /// Returns the connection.
    pub(crate) fn into_inner(self) -> T {
        self.inner
    }

    /// Starts to replace what hyper writes if no request is open: hyper then writes its own error response. Returns `true` if the data is replaced.
    fn replaces(&mut self, written: &[u8]) -> bool {
        if self.exchange.open.load(Ordering::Relaxed) || written.is_empty() {
            return false;
        }
        let status = written
            .strip_prefix(b"HTTP/1.1 ")
            .or_else(|| written.strip_prefix(b"HTTP/1.0 "))
            .and_then(|rest| StatusCode::from_bytes(rest.get(..3)?).ok());
        let Some(status) = status.filter(StatusCode::is_client_error) else {
            return false;
        };
        self.exchange.leave_unread();
        self.instead = (self.refusal)(status);
        true
    }
}

impl<T: AsyncWrite + Unpin> Wire<T> {
    fn watch<R>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let patience = self.patience;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.instead.is_empty() {
            let poll = Pin::new(&mut self.inner).poll_write(cx, &self.instead);
            match ready!(self.watch(cx, poll))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.instead.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Wire<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.held.is_empty() {
            let reach = self.held.len().min(buf.remaining());
            let taken = self.exchange.received(&self.held[..reach])?;
            buf.put_slice(&self.held.split_to(taken));
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let came = &buf.filled()[before..];
        if !came.is_empty() {
            let taken = self.exchange.received(came)?;
            self.held = Bytes::copy_from_slice(&came[taken..]);
            buf.set_filled(before + taken);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Wire<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_instead(cx))?;
        if self.replaces(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        let poll = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.watch(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_instead(cx))?;
        if let Some(first) = bufs.iter().find(|buf| !buf.is_empty())
            && self.replaces(first)
        {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.watch(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(cx))?;
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        ready!(self.watch(cx, poll))?;
        self.exchange.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
