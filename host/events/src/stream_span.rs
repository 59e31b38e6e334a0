//! The span of a stream or of a request that waits, see `docs/tracing.md`.

use latchmail_core::traces::{Kind, Span};

/// A span in the trace of the request. It ends when this value is dropped, with the stream.
pub(crate) struct StreamSpan {
    span: Span,
    /// The number of events that were sent.
    pub(crate) events: usize,
    /// The reason of the end.
    pub(crate) outcome: &'static str,
}

impl StreamSpan {
    /// Begins the span of a stream that ends when the client disconnects, unless another outcome is
    /// set.
    pub(crate) fn start(name: &'static str) -> Self {
        Self {
            span: Span::start(Kind::Internal, || name.into()),
            events: 0,
            outcome: "disconnected",
        }
    }
}

impl Drop for StreamSpan {
    fn drop(&mut self) {
        let events = i64::try_from(self.events).unwrap_or(i64::MAX);
        self.span.set_number("latchmail.events", events);
        self.span.set("latchmail.outcome", self.outcome);
    }
}
