//! The body of an HTTP/2 response. It reports the progress with which the client reads the
//! response.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

use super::progress::{ActiveRequest, UnwrittenPart};

/// A response body. The request ends when this value and all parts of the body are dropped.
pub(super) struct StreamBody<B> {
    body: B,
    active: Arc<ActiveRequest>,
}

impl<B: Body> StreamBody<B> {
    pub(super) fn new(body: B, active: ActiveRequest) -> Self {
        if body.is_end_stream() {
            active.complete();
        }
        Self {
            body,
            active: Arc::new(active),
        }
    }
}

impl<B: Body<Data = Bytes, Error = io::Error> + Unpin> Body for StreamBody<B> {
    type Data = Part;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, io::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if self.body.is_end_stream() {
            self.active.complete();
        }
        Poll::Ready(frame.map(|result| {
            result.map(|frame| {
                frame.map_data(|bytes| Part {
                    bytes,
                    unwritten: UnwrittenPart::new(&self.active),
                })
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A part of a response body. h2 drops this value when h2 has written all bytes.
pub(super) struct Part {
    bytes: Bytes,
    unwritten: UnwrittenPart,
}

impl Buf for Part {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.unwritten.advance();
    }
}
