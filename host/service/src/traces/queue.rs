//! The finished spans that wait for the next request to the collector, as encoded messages: an
//! encoded span needs about 110 bytes.

use std::mem;
use std::sync::{Mutex, PoisonError};

use latchmail_core::metrics;
use latchmail_core::traces::{SpanData, SpanSink};
use tokio::sync::Notify;

use super::messages;

/// The size of the waiting spans, in bytes, at which they are sent without waiting for the next
/// interval.
const BATCH_SIZE: usize = 256 * 1024;

/// The size of the waiting spans, in bytes, at which further spans are lost.
const MAX_SIZE: usize = 2 * 1024 * 1024;

/// The spans that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Batch>,
    filled: Notify,
}

/// Spans for one request.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The spans as [`messages::append`] encodes them.
    pub(super) spans: Vec<u8>,
    /// The number of spans.
    pub(super) count: u32,
}

impl SpanSink for Queue {
    fn add(&self, span: SpanData) {
        let span = messages::span(span);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.spans.len() >= MAX_SIZE {
            metrics::TRACE_SPANS_LOST.increment([]);
            return;
        }
        let was_filled = waiting.spans.len() >= BATCH_SIZE;
        messages::append(&mut waiting.spans, span);
        waiting.count += 1;
        if !was_filled && waiting.spans.len() >= BATCH_SIZE {
            self.filled.notify_one();
        }
    }
}

impl Queue {
    /// Waits until the waiting spans have the size [`BATCH_SIZE`].
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Takes all spans. Returns `None` if no spans wait.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        (waiting.count > 0).then(|| mem::take(&mut *waiting))
    }

    /// Adds the spans of a request that failed, so that the next request sends them.
    pub(super) fn put_back(&self, mut batch: Batch) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        batch.spans.append(&mut waiting.spans);
        batch.count += waiting.count;
        *waiting = batch;
    }
}
