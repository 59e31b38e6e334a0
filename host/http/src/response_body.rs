//! Response bodies. A body is either bytes in memory or a stream. Except for a stream of events,
//! the length of a body is known in advance. If a stream does not have this length, the body
//! returns an error and the connection is closed. So a client never accepts an incomplete body as
//! complete.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::{BoxFuture, select_all};
use latchmail_bindings::ByteStream;
use latchmail_core::ended_credentials::Registration;
use latchmail_runtime::modules::Content;
use latchmail_transport::{Body, Frame, SizeHint};

/// The body of a response.
pub struct ResponseBody {
    /// The number of bytes that have not been sent. `None` if the length is unknown.
    remaining: Option<u64>,
    source: Source,
    /// Completes when a credential of the caller ends. `None` if nothing stops the body.
    stopped: Option<BoxFuture<'static, ()>>,
}

enum Source {
    Bytes(Bytes),
    Stream(ByteStream),
    /// Events. `None` after the last event.
    Events(Option<ByteStream>),
}

impl ResponseBody {
    /// Creates the body of a response.
    #[must_use]
    pub fn new(content: Content) -> Self {
        let blob = match content {
            Content::Bytes(bytes) => return Self::from_bytes(bytes),
            Content::Blob(blob) => blob,
            Content::Events(stream) => {
                return Self {
                    remaining: None,
                    source: Source::Events(Some(stream.into_stream())),
                    stopped: None,
                };
            }
        };
        let remaining = Some(blob.size());
        match blob.into_bytes() {
            Ok(bytes) => Self::from_bytes(bytes),
            Err(blob) => Self {
                remaining,
                source: Source::Stream(blob.into_stream()),
                stopped: None,
            },
        }
    }

    fn from_bytes(bytes: Bytes) -> Self {
        Self {
            remaining: Some(bytes.len() as u64),
            source: Source::Bytes(bytes),
            stopped: None,
        }
    }

    /// Returns `true` if the body is a stream that must stop when a credential ends. A stream of
    /// events ends itself, after its last event.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.source, Source::Stream(_))
    }

    /// Ends the body with an error when the credential of one of the registrations ends.
    pub(crate) fn stop_with(&mut self, registrations: Vec<Registration>) {
        self.stopped = Some(Box::pin(async move {
            let stops = registrations
                .iter()
                .map(|one| Box::pin(one.stop().cancelled()));
            select_all(stops).await;
        }));
    }

    /// Returns the number of bytes that have not been sent. Returns `None` if the length of the
    /// body is unknown.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.remaining
    }
}

impl Default for ResponseBody {
    fn default() -> Self {
        Self::from_bytes(Bytes::new())
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody")
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Source::Events(events) = &mut self.source {
            let Some(stream) = events else {
                return Poll::Ready(None);
            };
            let piece = ready!(stream.as_mut().poll_next(cx));
            if piece.is_none() {
                *events = None;
            }
            return Poll::Ready(piece.map(|piece| piece.map(Frame::data)));
        }
        if self.remaining == Some(0) {
            return Poll::Ready(None);
        }
        if let Some(stopped) = &mut self.stopped
            && stopped.as_mut().poll(cx).is_ready()
        {
            // The future must not be polled again, and the connection closes after this error.
            self.stopped = None;
            let error = io::Error::new(io::ErrorKind::PermissionDenied, "the credential has ended");
            return Poll::Ready(Some(Err(error)));
        }
        let piece = match &mut self.source {
            Source::Bytes(bytes) => Some(Ok(std::mem::take(bytes))),
            Source::Stream(pieces) => ready!(pieces.as_mut().poll_next(cx)),
            Source::Events(_) => None,
        };
        let sent = match piece {
            Some(Ok(piece)) => {
                let length = piece.len() as u64;
                self.remaining
                    .unwrap_or_default()
                    .checked_sub(length)
                    .map(|remaining| (remaining, piece))
                    .ok_or_else(|| {
                        io::Error::other("the response body is longer than its Content-Length")
                    })
            }
            Some(Err(error)) => Err(error),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        Poll::Ready(Some(sent.map(|(remaining, piece)| {
            self.remaining = Some(remaining);
            Frame::data(piece)
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == Some(0) || matches!(self.source, Source::Events(None))
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::stream::{self, StreamExt as _};
    use http_body_util::BodyExt as _;
    use latchmail_bindings::{Blob, BlobSource, EventStream};
    use latchmail_core::ended_credentials::EndedCredentials;
    use tokio::time::Instant;

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

    #[tokio::test]
    async fn a_body_stops_when_its_credential_ends() {
        let credentials = EndedCredentials::default();
        let blob = Blob::from_source(2, Arc::new(Words(&["a", "b"])));
        let mut body = ResponseBody::new(Content::Blob(blob));
        assert!(body.is_stream());
        body.stop_with(vec![credentials.register("one", Instant::now())]);
        assert!(body.frame().await.unwrap().is_ok());
        credentials.end("one");
        let error = body.frame().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    async fn sent(size: u64, words: &'static [&'static str]) -> io::Result<Bytes> {
        let blob = Blob::from_source(size, Arc::new(Words(words)));
        let body = ResponseBody::new(Content::Blob(blob));
        assert_eq!(body.size_hint().exact(), Some(size));
        Ok(body.collect().await?.to_bytes())
    }

    #[tokio::test]
    async fn a_stream_is_sent_in_order_and_must_have_the_announced_length() {
        assert_eq!(sent(5, &["ab", "", "cde"]).await.unwrap(), "abcde");
        assert_eq!(sent(0, &[]).await.unwrap(), "");
        assert!(sent(6, &["ab", "cde"]).await.is_err());
        assert!(sent(4, &["ab", "cde"]).await.is_err());
    }

    #[tokio::test]
    async fn a_stream_of_events_has_no_announced_length() {
        let words = stream::iter(["a", "bc"].map(|word| Ok(Bytes::from_static(word.as_bytes()))));
        let mut body = ResponseBody::new(Content::Events(EventStream::new(words.boxed())));
        assert_eq!((body.length(), body.size_hint().exact()), (None, None));
        assert!(!body.is_stream() && !body.is_end_stream());
        let mut sent = Vec::new();
        while let Some(frame) = body.frame().await {
            sent.extend(frame.unwrap().into_data().unwrap());
        }
        assert_eq!(sent, b"abc");
        assert!(body.is_end_stream());
    }

    #[tokio::test]
    async fn bytes_in_memory_are_sent() {
        let bytes = Bytes::from_static(b"here");
        for content in [
            Content::Bytes(bytes.clone()),
            Content::Blob(Blob::new(bytes)),
        ] {
            let body = ResponseBody::new(content);
            assert_eq!(body.length(), Some(4));
            assert_eq!(body.collect().await.unwrap().to_bytes(), "here");
        }
        assert!(ResponseBody::default().is_end_stream());
    }
}
