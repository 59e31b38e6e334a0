//! Response bodies: bytes in memory, or pieces of a stream. The length of a body is known in advance. If a stream has another length, the connection is closed,
//! so that no client accepts an incomplete body as complete.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use latchmail_bindings::ByteStream;
use latchmail_runtime::modules::Content;

/// A body of a known length.
pub struct Outgoing {
    left: u64,
    pieces: Origin,
}

enum Origin {
    Here(Bytes),
    Elsewhere(ByteStream),
}

impl Outgoing {
    /// Creates the body of a response.
    #[must_use]
    pub fn new(content: Content) -> Self {
        let blob = match content {
            Content::Bytes(bytes) => return Self::of(bytes),
            Content::Blob(blob) => blob,
        };
        let left = blob.size();
        match blob.into_bytes() {
            Ok(bytes) => Self::of(bytes),
            Err(blob) => Self {
                left,
                pieces: Origin::Elsewhere(blob.into_stream()),
            },
        }
    }

    fn of(bytes: Bytes) -> Self {
        Self {
            left: bytes.len() as u64,
            pieces: Origin::Here(bytes),
        }
    }

    /// Returns the number of bytes that were not sent yet.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.left
    }
}

impl Default for Outgoing {
    fn default() -> Self {
        Self::of(Bytes::new())
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = match &mut self.pieces {
            Origin::Here(bytes) => Some(Ok(std::mem::take(bytes))),
            Origin::Elsewhere(pieces) => ready!(pieces.as_mut().poll_next(cx)),
        };
        let sent = match piece {
            Some(Ok(piece)) => {
                let length = piece.len() as u64;
                self.left
                    .checked_sub(length)
                    .map(|left| (left, piece))
                    .ok_or_else(|| io::Error::other("the body is longer than announced"))
            }
            Some(Err(error)) => Err(error),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        Poll::Ready(Some(sent.map(|(left, piece)| {
            self.left = left;
            Frame::data(piece)
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::stream::{self, StreamExt as _};
    use http_body_util::BodyExt as _;
    use latchmail_bindings::{Blob, BlobSource};

    use super::*;

    struct Words(&'static [&'static str]);

    impl BlobSource for Words {
        fn open(&self) -> ByteStream {
            stream::iter(
                self.0
                    .iter()
                    .map(|word| Ok(Bytes::from_static(word.as_bytes()))),
            )
            .boxed()
        }
    }

    async fn sent(size: u64, words: &'static [&'static str]) -> io::Result<Bytes> {
        let blob = Blob::from_source(size, Arc::new(Words(words)));
        let body = Outgoing::new(Content::Blob(blob));
        assert_eq!(body.size_hint().exact(), Some(size));
        Ok(body.collect().await?.to_bytes())
    }

    #[tokio::test]
    async fn pieces_go_out_in_order_and_exactly_as_many_bytes_as_were_announced() {
        assert_eq!(sent(5, &["ab", "", "cde"]).await.unwrap(), "abcde");
        assert_eq!(sent(0, &[]).await.unwrap(), "");
        assert!(sent(6, &["ab", "cde"]).await.is_err());
        assert!(sent(4, &["ab", "cde"]).await.is_err());
    }

    #[tokio::test]
    async fn bytes_that_are_there_go_out_at_once() {
        let here = Bytes::from_static(b"here");
        for content in [Content::Bytes(here.clone()), Content::Blob(Blob::new(here))] {
            let body = Outgoing::new(content);
            assert_eq!(body.length(), 4);
            assert_eq!(body.collect().await.unwrap().to_bytes(), "here");
        }
        assert!(Outgoing::default().is_end_stream());
    }
}
