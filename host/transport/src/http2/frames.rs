//! A wrapper of the stream that h2 reads and writes. It finds incomplete header blocks, and limits
//! the time for which a client can block a write. It changes no data.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::progress::Progress;
use crate::write_timeout::WriteTimeout;

/// The length of the connection preface of a client, in bytes (RFC 9113, section 3.4).
const PREFACE: usize = 24;
/// The length of the header of a frame, in bytes (RFC 9113, section 4.1).
const FRAME_HEADER: usize = 9;
/// The types of frames with header blocks, and the flag for the last frame of a block (RFC 9113,
/// sections 6.2 and 6.10).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// A stream that reports incomplete header blocks.
pub(super) struct FrameStream<T> {
    inner: T,
    progress: Arc<Progress>,
    scanner: FrameScanner,
    write_timeout: WriteTimeout,
}

impl<T> FrameStream<T> {
    /// Wraps a stream. A client can block a write for at most `write_timeout`.
    pub(super) fn new(inner: T, progress: Arc<Progress>, write_timeout: Duration) -> Self {
        Self {
            inner,
            progress,
            scanner: FrameScanner::new(),
            write_timeout: WriteTimeout::new(write_timeout),
        }
    }
}

/// A scanner that finds header blocks in the frames of a client.
struct FrameScanner {
    /// The header of the current frame. `received` is the number of its bytes that have arrived.
    header: [u8; FRAME_HEADER],
    received: usize,
    /// The number of following bytes that are not a frame header: the preface, or the rest of a
    /// frame's payload.
    skip: usize,
    /// Whether a header block has begun and is not complete.
    in_block: bool,
    /// Whether the current frame is the last frame of a header block.
    ends_block: bool,
}

impl FrameScanner {
    fn new() -> Self {
        Self {
            header: [0; FRAME_HEADER],
            received: 0,
            skip: PREFACE,
            in_block: false,
            ends_block: false,
        }
    }

    fn scan(&mut self, mut bytes: &[u8]) {
        loop {
            let skipped = self.skip.min(bytes.len());
            bytes = &bytes[skipped..];
            self.skip -= skipped;
            if self.skip == 0 && self.ends_block {
                self.ends_block = false;
                self.in_block = false;
            }
            if bytes.is_empty() {
                return;
            }
            let missing = (FRAME_HEADER - self.received).min(bytes.len());
            let (part, rest) = bytes.split_at(missing);
            self.header[self.received..self.received + missing].copy_from_slice(part);
            self.received += missing;
            bytes = rest;
            if self.received == FRAME_HEADER {
                self.received = 0;
                let [high, middle, low, kind, flags, ..] = self.header;
                self.skip = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                if kind == HEADERS || kind == CONTINUATION {
                    self.in_block = true;
                    self.ends_block = flags & END_HEADERS != 0;
                }
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for FrameStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let was_in_block = self.scanner.in_block;
        self.scanner.scan(&buf.filled()[before..]);
        if was_in_block != self.scanner.in_block {
            self.progress.set_in_head(self.scanner.in_block);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for FrameStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.write_timeout.limit(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.write_timeout.limit(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        self.write_timeout.limit(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.write_timeout.limit(cx, poll)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_HEADER + payload, 0xff);
        frame
    }

    /// Returns whether a header block is incomplete after these bytes, which arrive in pieces of
    /// `step` bytes.
    fn in_block(frames: &[Vec<u8>], step: usize) -> bool {
        let mut scanner = FrameScanner::new();
        let bytes = [vec![0; PREFACE], frames.concat()].concat();
        bytes.chunks(step).for_each(|piece| scanner.scan(piece));
        scanner.in_block
    }

    #[test]
    fn a_header_block_is_incomplete_until_its_last_byte() {
        let data = frame(0, 1, 300);
        for step in [1, 2, 7, 10_000] {
            for (frames, expected) in [
                (vec![], false),
                (vec![data.clone()], false),
                (vec![data.clone(), frame(HEADERS, END_HEADERS, 20)], false),
                (vec![frame(HEADERS, END_HEADERS, 0)], false),
                (vec![frame(HEADERS, 0, 20)], true),
                (vec![frame(HEADERS, 0, 20), frame(CONTINUATION, 0, 0)], true),
                (
                    vec![
                        frame(HEADERS, 0, 20),
                        frame(CONTINUATION, 0, 70_000),
                        frame(CONTINUATION, END_HEADERS, 5),
                        data.clone(),
                    ],
                    false,
                ),
                (vec![frame(HEADERS, END_HEADERS, 20)[..28].to_vec()], true),
                (vec![frame(HEADERS, END_HEADERS, 20)[..5].to_vec()], false),
            ] {
                assert_eq!(in_block(&frames, step), expected, "{step} {frames:?}");
            }
        }
    }
}
