//! Spans: the parts of a request, with their times. A span is passed to the sink when it is
//! dropped, so a cancelled request has spans too.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::context::{SpanId, TraceId};
use super::{SpanSink, Trace, with_current};

/// The name of a span, or the value of an attribute.
pub type Name = Cow<'static, str>;

/// The relation of a span to other services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request that this service receives.
    Server,
    /// A request that this service sends.
    Client,
    /// Work in this service.
    Internal,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Name),
    /// A number.
    Number(i64),
}

/// A finished span.
#[derive(Clone, Debug)]
pub struct SpanData {
    /// The trace.
    pub trace_id: TraceId,
    /// The id of this span.
    pub id: SpanId,
    /// The parent, which is a span of another service if this span has the kind [`Kind::Server`].
    /// `None` for the first span of a trace.
    pub parent: Option<SpanId>,
    /// The name.
    pub name: Name,
    /// The kind.
    pub kind: Kind,
    /// The time of the start.
    pub start: SystemTime,
    /// The time of the end.
    pub end: SystemTime,
    /// The names and values of the attributes.
    pub attributes: Vec<(&'static str, Value)>,
    /// Whether the work of the span failed.
    pub is_error: bool,
}

/// A span that has not ended. The span ends when this value is dropped. If the spans of the request
/// are not recorded, all functions do nothing.
#[derive(Default)]
#[must_use = "the span ends when it is dropped"]
pub struct Span(Option<Box<Active>>);

struct Active {
    data: SpanData,
    start: Instant,
    sink: Arc<dyn SpanSink>,
    /// The span that was the current span when this span was entered, or `None` if this span was
    /// not entered. It becomes the current span again when this span ends.
    entered_from: Option<SpanId>,
}

impl Span {
    /// Begins a span in the trace of the current request. The name is computed only if the span is
    /// recorded.
    pub fn start(kind: Kind, name: impl FnOnce() -> Name) -> Self {
        with_current(|trace| Self::begin(trace, kind, Some(trace.parent.get()), name))
            .unwrap_or_default()
    }

    pub(super) fn begin(
        trace: &Trace,
        kind: Kind,
        parent: Option<SpanId>,
        name: impl FnOnce() -> Name,
    ) -> Self {
        let Some(sink) = &trace.sink else {
            return Self::default();
        };
        let now = SystemTime::now();
        Self(Some(Box::new(Active {
            data: SpanData {
                trace_id: trace.id,
                id: SpanId::next(),
                parent,
                name: name(),
                kind,
                start: now,
                end: now,
                attributes: Vec::new(),
                is_error: false,
            },
            start: Instant::now(),
            sink: Arc::clone(sink),
            entered_from: None,
        })))
    }

    pub(super) fn id(&self) -> Option<SpanId> {
        self.0.as_ref().map(|active| active.data.id)
    }

    /// Makes this span the parent of the spans that begin on this task until this span ends. Spans
    /// that have been entered must end in the reverse order.
    pub fn entered(mut self) -> Self {
        if let Some(active) = &mut self.0 {
            let id = active.data.id;
            active.entered_from = with_current(|trace| trace.parent.replace(id));
        }
        self
    }

    /// Replaces the name.
    pub fn rename(&mut self, name: impl FnOnce() -> Name) {
        if let Some(active) = &mut self.0 {
            active.data.name = name();
        }
    }

    /// Adds an attribute with a text. The text is copied only if the span is recorded.
    pub fn set(&mut self, key: &'static str, text: &str) {
        if let Some(active) = &mut self.0 {
            let value = Value::Text(text.to_owned().into());
            active.data.attributes.push((key, value));
        }
    }

    /// Adds an attribute with a number.
    pub fn set_number(&mut self, key: &'static str, number: i64) {
        if let Some(active) = &mut self.0 {
            active.data.attributes.push((key, Value::Number(number)));
        }
    }

    /// Marks the span as failed. `reason` is a short constant, which becomes the attribute
    /// `error.type`.
    pub fn fail(&mut self, reason: &str) {
        self.set("error.type", reason);
        if let Some(active) = &mut self.0 {
            active.data.is_error = true;
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(active) = self.0.take() {
            let mut data = active.data;
            data.end = data.start + active.start.elapsed();
            if let Some(parent) = active.entered_from {
                with_current(|trace| trace.parent.set(parent));
            }
            active.sink.add(data);
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.0.as_ref().map(|active| &active.data);
        f.debug_tuple("Span").field(&data).finish()
    }
}
