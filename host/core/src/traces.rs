//! The traces of requests: a trace id for each request, and spans for the parts of a request.
//!
//! Each request has a trace id, even if no spans are recorded. The log lines of the request and the outgoing requests of modules contain the trace id. Spans are
//! recorded only if a [`Tracer`] has a queue for them. `docs/tracing.md` describes all spans. Names and attributes of spans contain no mail addresses, no
//! addresses of clients, no subjects and no tokens.
//!
//! This module does not send spans to a collector; the crate `latchmail-service` sends spans.

mod context;
mod span;

use std::cell::Cell;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::task::futures::TaskLocalFuture;
use tracing::Instrument as _;
use tracing::instrument::Instrumented;

use crate::metrics;

pub use context::{SpanId, TraceContext, TraceId};
pub use span::{Kind, Name, Span, SpanData, Value};

tokio::task_local! {
    /// The trace of the request that the current task serves. `None` on tasks that serve no request.
    static CURRENT: Option<Trace>;
}

/// The trace of one request, on one task.
#[derive(Clone, Debug)]
pub struct Trace {
    id: TraceId,
    is_sampled: bool,
    /// The span that is the parent of the next span.
    parent: Cell<SpanId>,
    /// The queue for finished spans. `None` if the spans of this request are not recorded.
    queue: Option<Arc<SpanQueue>>,
}

impl Trace {
    /// Returns the trace id.
    #[must_use]
    pub fn id(&self) -> TraceId {
        self.id
    }

    /// Runs `future` as a part of this trace.
    pub fn scope<F: Future>(self, future: F) -> TaskLocalFuture<Option<Self>, F> {
        CURRENT.scope(Some(self), future)
    }

    fn context(&self) -> TraceContext {
        TraceContext {
            trace_id: self.id,
            span_id: self.parent.get(),
            is_sampled: self.is_sampled,
        }
    }
}

/// Returns the position of the current task in the trace of its request. Returns `None` if the current task serves no request.
#[must_use]
pub fn current() -> Option<TraceContext> {
    with_current(Trace::context)
}

fn with_current<T>(read: impl FnOnce(&Trace) -> T) -> Option<T> {
    CURRENT
        .try_with(|current| current.as_ref().map(read))
        .ok()
        .flatten()
}

/// Adds the log fields and the trace of the current request to a future that runs on another task.
pub fn in_request<F: Future>(future: F) -> TaskLocalFuture<Option<Trace>, Instrumented<F>> {
    CURRENT.scope(with_current(Clone::clone), future.in_current_span())
}

/// Begins the traces of requests. The default value records no spans.
#[derive(Clone, Debug, Default)]
pub struct Tracer {
    queue: Option<Arc<SpanQueue>>,
    /// The part of the new traces that are recorded, from 0 to 1.
    sample_ratio: f64,
}

/// The queue of the spans that are not yet sent.
#[derive(Debug)]
pub struct SpanQueue {
    sender: mpsc::Sender<SpanData>,
    /// The number of free places below which the receiver is notified.
    low: usize,
    notify: Notify,
}

impl SpanQueue {
    fn add(&self, span: SpanData) {
        if self.sender.try_send(span).is_err() {
            metrics::TRACE_SPANS_LOST.increment([]);
        }
        if self.sender.capacity() < self.low {
            self.notify.notify_one();
        }
    }

    /// Waits until the queue is half full.
    pub async fn half_full(&self) {
        self.notify.notified().await;
    }
}

impl Tracer {
    /// Creates a tracer that records spans, and a queue with space for `size` spans. `sample_ratio` is the part of the traces that are recorded, from 0 to 1.
    #[must_use]
    pub fn recording(
        size: usize,
        sample_ratio: f64,
    ) -> (Self, Arc<SpanQueue>, mpsc::Receiver<SpanData>) {
        let (sender, receiver) = mpsc::channel(size);
        let queue = Arc::new(SpanQueue {
            sender,
            low: size / 2,
            notify: Notify::new(),
        });
        let tracer = Self {
            queue: Some(Arc::clone(&queue)),
            sample_ratio,
        };
        (tracer, queue, receiver)
    }

    /// Begins the trace of a request, or continues the trace `received` of a trusted client. Also returns the span of the request. A continued trace is sampled
    /// if the client sampled it.
    pub fn begin(
        &self,
        received: Option<TraceContext>,
        name: impl FnOnce() -> Name,
    ) -> (Trace, Span) {
        let id = received.map_or_else(TraceId::random, |received| received.trace_id);
        let is_sampled = match received {
            Some(received) => received.is_sampled,
            None => self.queue.is_some() && id.fraction() < self.sample_ratio,
        };
        let received = received.map(|received| received.span_id);
        let trace = Trace {
            id,
            is_sampled,
            parent: Cell::new(received.unwrap_or_else(SpanId::random)),
            queue: self.queue.clone().filter(|_| is_sampled),
        };
        let span = Span::begin(&trace, Kind::Server, received, name);
        if let Some(id) = span.id() {
            trace.parent.set(id);
        }
        (trace, span)
    }
}

#[cfg(test)]
mod tests;
