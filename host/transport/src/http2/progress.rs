//! The progress of an HTTP/2 connection, and its timeouts.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::client_connections::ConnectionPermit;

/// The maximum time between a GOAWAY frame, which announces the end of the connection, and the
/// close of the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of cancelled requests on a connection. For each completed request, one more
/// cancelled request is allowed. A client that cancels more requests makes the service work in vain
/// (rapid reset). A response of which the client got data does not count: cancelling is the only
/// way to end a stream of events.
const MAX_CANCELLED: usize = 100;
/// The shortest timeout divided by the maximum interval between two checks of the timeouts.
const CHECKS_PER_TIMEOUT: u32 = 4;

/// A condition that ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timeout {
    /// The connection is idle. The service must send GOAWAY to the client.
    Idle,
    /// The connection must be closed immediately, for this reason.
    Close(&'static str),
}

/// The state of a connection. The connection, its requests and its responses share this value.
pub(super) struct Progress {
    inner: Mutex<Inner>,
    head_timeout: Duration,
    idle_timeout: Duration,
}

struct Inner {
    /// Whether a request has arrived.
    started: bool,
    /// The number of requests whose response is not complete.
    active: usize,
    /// The time at which the connection started, or at which the last request ended.
    idle_since: Instant,
    /// The time at which the incomplete header block began.
    head_since: Option<Instant>,
    /// The time at which the end of the connection was announced.
    closing_since: Option<Instant>,
    completed: usize,
    cancelled: usize,
    /// The parts of response bodies that h2 has not completely written, with the time of their last
    /// progress. h2 writes a part as far as the flow-control window of the client permits.
    unwritten: HashMap<u64, Instant>,
    next_id: u64,
}

impl Progress {
    pub(super) fn new(head_timeout: Duration, idle_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                started: false,
                active: 0,
                idle_since: Instant::now(),
                head_since: None,
                closing_since: None,
                completed: 0,
                cancelled: 0,
                unwritten: HashMap::new(),
                next_id: 0,
            }),
            head_timeout,
            idle_timeout,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a new request. `permit` is released at the end of the request.
    pub(super) fn begin_request(
        self: &Arc<Self>,
        permit: Option<ConnectionPermit>,
    ) -> ActiveRequest {
        let mut inner = self.lock();
        inner.started = true;
        inner.active += 1;
        ActiveRequest {
            progress: Arc::clone(self),
            outcome: AtomicU8::new(CANCELLED),
            _permit: permit,
        }
    }

    /// Records whether a header block has begun and is not complete.
    pub(super) fn set_in_head(&self, in_head: bool) {
        self.lock().head_since = in_head.then(Instant::now);
    }

    /// Records that the end of the connection was announced.
    pub(super) fn close(&self) {
        self.lock().closing_since.get_or_insert_with(Instant::now);
    }

    /// Returns the condition that ends the connection at `now`. Otherwise, returns the earliest
    /// time at which the connection could end.
    fn check(&self, now: Instant) -> Result<Instant, Timeout> {
        let inner = self.lock();
        let mut earliest = now + self.head_timeout.min(self.idle_timeout) / CHECKS_PER_TIMEOUT;
        let mut until = |deadline: Instant, timeout: Timeout| {
            earliest = earliest.min(deadline);
            if deadline <= now {
                Err(timeout)
            } else {
                Ok(())
            }
        };
        if let Some(since) = inner.head_since {
            let timeout = Timeout::Close("the headers of a request did not arrive in time");
            until(since + self.head_timeout, timeout)?;
        }
        if inner.cancelled > MAX_CANCELLED + inner.completed {
            return Err(Timeout::Close("the client cancelled too many requests"));
        }
        if let Some(oldest) = inner.unwritten.values().min() {
            let timeout = Timeout::Close("the client does not read a response");
            until(*oldest + self.idle_timeout, timeout)?;
        } else if inner.active > 0 {
            // The connection has no timeout during a request, because the request has its own
            // deadlines.
        } else if let Some(since) = inner.closing_since {
            let timeout = Timeout::Close("the client does not close the connection");
            until(since.max(inner.idle_since) + CLOSE_TIMEOUT, timeout)?;
        } else if inner.started {
            until(inner.idle_since + self.idle_timeout, Timeout::Idle)?;
        } else {
            let first = self.head_timeout.min(self.idle_timeout);
            let timeout = Timeout::Close("no request arrived in time");
            until(inner.idle_since + first, timeout)?;
        }
        Ok(earliest)
    }
}

/// The timer of a connection. It checks the timeouts periodically, because the tasks of the
/// requests change the deadlines.
pub(super) struct Timer {
    progress: Arc<Progress>,
    sleep: Pin<Box<Sleep>>,
}

impl Timer {
    pub(super) fn new(progress: &Arc<Progress>) -> Self {
        Self {
            progress: Arc::clone(progress),
            sleep: Box::pin(sleep_until(Instant::now())),
        }
    }

    /// Returns the next condition that ends the connection.
    pub(super) fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<Timeout> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let now = Instant::now();
            match self.progress.check(now) {
                Ok(next) => self.sleep.as_mut().reset(next),
                Err(timeout) => {
                    self.sleep
                        .as_mut()
                        .reset(now + CLOSE_TIMEOUT / CHECKS_PER_TIMEOUT);
                    return Poll::Ready(timeout);
                }
            }
        }
    }
}

/// A request whose response is not complete. Dropping this value records the end of the request.
pub(super) struct ActiveRequest {
    progress: Arc<Progress>,
    outcome: AtomicU8,
    _permit: Option<ConnectionPermit>,
}

/// The outcomes of a request. A later outcome in this order replaces an earlier one.
const CANCELLED: u8 = 0;
/// The request was not executed, or h2 has written a part of its response.
const UNCOUNTED: u8 = 1;
const COMPLETED: u8 = 2;

impl ActiveRequest {
    /// Records that hyper has the complete response.
    pub(super) fn complete(&self) {
        self.outcome.fetch_max(COMPLETED, Ordering::Relaxed);
    }

    /// Ends a request that is not executed.
    pub(super) fn refuse(self) {
        self.outcome.fetch_max(UNCOUNTED, Ordering::Relaxed);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut inner = self.progress.lock();
        inner.active -= 1;
        inner.idle_since = Instant::now();
        match *self.outcome.get_mut() {
            COMPLETED => inner.completed += 1,
            UNCOUNTED => {}
            _ => inner.cancelled += 1,
        }
    }
}

/// A part of a response body that h2 has not completely written. Dropping this value records the
/// end of the write.
pub(super) struct UnwrittenPart {
    request: Arc<ActiveRequest>,
    id: u64,
}

impl UnwrittenPart {
    /// Records a part of the response to `request`.
    pub(super) fn new(request: &Arc<ActiveRequest>) -> Self {
        let mut inner = request.progress.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.unwritten.insert(id, Instant::now());
        Self {
            request: Arc::clone(request),
            id,
        }
    }

    /// Records that h2 has written some bytes.
    pub(super) fn advance(&self) {
        self.request.outcome.fetch_max(UNCOUNTED, Ordering::Relaxed);
        let mut inner = self.request.progress.lock();
        if let Some(last_progress) = inner.unwritten.get_mut(&self.id) {
            *last_progress = Instant::now();
        }
    }
}

impl Drop for UnwrittenPart {
    fn drop(&mut self) {
        self.request.progress.lock().unwritten.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_mins(1);
    /// More than the duration of a test.
    const MOMENT: Duration = Duration::from_secs(5);

    fn closes(timeout: Result<Instant, Timeout>) -> bool {
        matches!(timeout, Err(Timeout::Close(_)))
    }

    #[test]
    fn the_first_request_must_arrive_within_the_head_timeout() {
        let progress = Progress::new(HEAD, IDLE);
        let start = Instant::now();
        assert!(progress.check(start + HEAD - MOMENT).is_ok());
        assert!(closes(progress.check(start + HEAD + MOMENT)));
        drop(progress.begin_request(None));
        assert!(progress.check(start + IDLE - MOMENT).is_ok());
        assert_eq!(progress.check(start + IDLE + MOMENT), Err(Timeout::Idle));
        progress.close();
        assert!(progress.check(start).is_ok());
        assert!(closes(progress.check(start + CLOSE_TIMEOUT + MOMENT)));
    }

    #[test]
    fn an_active_request_keeps_the_connection_open() {
        let progress = Progress::new(HEAD, IDLE);
        let start = Instant::now();
        let _active = progress.begin_request(None);
        progress.close();
        assert!(progress.check(start + IDLE * 100).is_ok());
        progress.set_in_head(true);
        assert!(progress.check(start + HEAD - MOMENT).is_ok());
        assert!(closes(progress.check(start + HEAD + MOMENT)));
        progress.set_in_head(false);
        assert!(progress.check(start + HEAD + MOMENT).is_ok());
    }

    #[test]
    fn every_response_must_make_progress() {
        let progress = Progress::new(HEAD, IDLE);
        let active = Arc::new(progress.begin_request(None));
        let first = UnwrittenPart::new(&active);
        let second = UnwrittenPart::new(&active);
        let pause = Duration::from_millis(20);
        std::thread::sleep(pause);
        let later = Instant::now();
        assert!(progress.check(later + IDLE - MOMENT).is_ok());
        first.advance();
        assert!(closes(progress.check(later + IDLE - pause / 2)));
        drop((active, second));
        assert!(progress.check(later + IDLE - pause / 2).is_ok());
        assert!(closes(progress.check(later + IDLE + MOMENT)));
        drop(first);
        assert!(progress.check(later + IDLE - MOMENT).is_ok());
    }

    #[test]
    fn a_client_may_cancel_some_requests() {
        let progress = Progress::new(HEAD, IDLE);
        let start = Instant::now();
        for _ in 0..1000 {
            let completed = progress.begin_request(None);
            completed.complete();
            drop((completed, progress.begin_request(None)));
            progress.begin_request(None).refuse();
            let stream = Arc::new(progress.begin_request(None));
            UnwrittenPart::new(&stream).advance();
        }
        for _ in 0..MAX_CANCELLED {
            drop(progress.begin_request(None));
        }
        assert!(progress.check(start).is_ok());
        drop(progress.begin_request(None));
        assert!(closes(progress.check(start)));
    }
}
