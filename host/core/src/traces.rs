//! The traces of requests: a trace id for each request, and spans for the parts of a request. Work
//! that no request caused can have a trace too.
//!
//! Each request has a trace id, even if no spans are recorded. The log lines of the request and the
//! outgoing requests of modules contain the trace id. Spans are recorded only if a [`Tracer`] has a
//! [`SpanSink`]. `docs/tracing.md` describes all spans. Names and attributes of spans contain no
//! mail addresses, no addresses of clients, no subjects and no tokens.
//!
//! This module neither stores spans nor sends them to a collector. The crate `latchmail-service`
//! does both.

mod context;
mod span;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use tokio::task::futures::TaskLocalFuture;
use tracing::Instrument as _;
use tracing::instrument::Instrumented;

pub use context::{SpanId, TraceContext, TraceId};
pub use span::{Kind, Name, Span, SpanData, Value};

tokio::task_local! {
    /// The trace of the request or of the work that the current task handles. `None` on all other
    /// tasks.
    static CURRENT: Option<Trace>;
}

/// The trace of one request, on one task.
#[derive(Clone, Debug)]
pub struct Trace {
    id: TraceId,
    is_sampled: bool,
    /// The current span, which is the parent of the next span.
    parent: Cell<SpanId>,
    /// The receiver of finished spans. `None` if the spans of this request are not recorded.
    sink: Option<Arc<dyn SpanSink>>,
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

/// Returns the trace context of the current task: the trace of its request and the current span.
/// Returns `None` if the current task handles no request.
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

/// Receives the finished spans of all recorded requests.
pub trait SpanSink: Send + Sync + fmt::Debug {
    /// Receives a span. The request waits for this call.
    fn add(&self, span: SpanData);
}

/// Begins the traces of requests. The default value records no spans.
#[derive(Clone, Debug, Default)]
pub struct Tracer {
    sink: Option<Arc<dyn SpanSink>>,
    /// The proportion of new traces that are recorded, from 0 to 1.
    sample_ratio: f64,
}

impl Tracer {
    /// Creates a tracer that records spans. `sample_ratio` is the proportion of new traces that are
    /// recorded, from 0 to 1.
    #[must_use]
    pub fn recording(sink: Arc<dyn SpanSink>, sample_ratio: f64) -> Self {
        Self {
            sink: Some(sink),
            sample_ratio,
        }
    }

    /// Begins the trace of a request, or continues the trace `received` of a trusted client. Also
    /// returns the span of the request. A continued trace is sampled if the client sampled it.
    pub fn begin(
        &self,
        received: Option<TraceContext>,
        name: impl FnOnce() -> Name,
    ) -> (Trace, Span) {
        self.begin_trace(Kind::Server, received, name)
    }

    /// Begins the trace of work that no request caused. Also returns the span of the work.
    pub fn begin_work(&self, name: impl FnOnce() -> Name) -> (Trace, Span) {
        self.begin_trace(Kind::Internal, None, name)
    }

    fn begin_trace(
        &self,
        kind: Kind,
        received: Option<TraceContext>,
        name: impl FnOnce() -> Name,
    ) -> (Trace, Span) {
        let id = received.map_or_else(TraceId::random, |received| received.trace_id);
        let is_sampled = match received {
            Some(received) => received.is_sampled,
            None => self.sink.is_some() && id.fraction() < self.sample_ratio,
        };
        let received = received.map(|received| received.span_id);
        let trace = Trace {
            id,
            is_sampled,
            parent: Cell::new(received.unwrap_or_else(SpanId::next)),
            sink: self.sink.clone().filter(|_| is_sampled),
        };
        let span = Span::begin(&trace, kind, received, name);
        if let Some(id) = span.id() {
            trace.parent.set(id);
        }
        (trace, span)
    }
}

#[cfg(test)]
mod tests;
