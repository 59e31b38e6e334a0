//! The health of a module. It consists of the counts of request results, and of a flag for a
//! failing module. A module is failing if most of its latest requests failed.
//!
//! This module only counts. The circuit breaker ([`crate::manager`]) acts on a failing module.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use latchmail_core::clock::Timestamp;

use super::error::CallError;
use crate::log_line::to_log_line;

/// The number of latest requests that determine whether a module is failing.
const WINDOW: u32 = 20;

/// The minimum number of recorded requests before a module can be classified as failing.
const MIN_REQUESTS: u32 = 10;

/// The results of the requests of a module since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of finished requests.
    pub requests: u64,
    /// The number of requests in which the module trapped. This includes requests that exceeded the
    /// memory limit or the CPU limit.
    pub trapped: u64,
    /// The number of requests for which the module returned an invalid response.
    pub wrong: u64,
    /// The number of requests that exceeded their deadline.
    pub late: u64,
    /// The number of requests that failed because no sandbox became free within the timeout.
    pub busy: u64,
    /// The time and the text of the last error.
    pub last: Option<(Timestamp, String)>,
    /// Whether the module trapped or returned an invalid response in most of its latest requests.
    pub failing: bool,
}

/// A notification that most of the latest requests of a module have failed.
#[derive(Clone, Debug)]
pub struct Failing {
    /// The name of the module.
    pub module: Arc<str>,
    /// The digest of the failing version.
    pub digest: Arc<str>,
}

/// The health of one module.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    /// One bit for each of the latest [`WINDOW`] requests. The lowest bit represents the newest
    /// request. A set bit means that the request failed.
    latest: u32,
    /// The number of requests in `latest`.
    recorded: u32,
}

impl Health {
    /// Records a successful request.
    pub(crate) fn succeeded(&self) {
        let mut state = self.state();
        state.counts.requests += 1;
        state.record(false);
    }

    /// Records a failed request. Returns `true` if the module became failing with this request.
    pub(crate) fn failed(&self, error: &CallError, now: Timestamp) -> bool {
        let mut state = self.state();
        state.counts.requests += 1;
        state.counts.last = Some((now, to_log_line(&error.to_string())));
        match error {
            CallError::Trapped { .. } => state.counts.trapped += 1,
            CallError::InvalidResponse { .. } => state.counts.wrong += 1,
            CallError::Deadline { .. } => {
                state.counts.late += 1;
                return false;
            }
            CallError::Busy { .. } => {
                state.counts.busy += 1;
                return false;
            }
            CallError::EndedByHost { .. } => return false,
        }
        state.record(true)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Locks the state. A poisoned lock is ignored, because the counts are usable after a panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Records the result of one request. Returns `true` if the module became failing with this
    /// request.
    fn record(&mut self, failed: bool) -> bool {
        self.latest = ((self.latest << 1) | u32::from(failed)) & ((1 << WINDOW) - 1);
        self.recorded = (self.recorded + 1).min(WINDOW);
        let was_failing = self.counts.failing;
        self.counts.failing =
            self.recorded >= MIN_REQUESTS && self.latest.count_ones() * 2 > self.recorded;
        self.counts.failing && !was_failing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(0);

    fn trap() -> CallError {
        CallError::Trapped {
            module: "x".into(),
            detail: "it aborted".into(),
            backtrace: Vec::new(),
        }
    }

    #[test]
    fn a_module_becomes_failing_once_if_most_of_its_latest_requests_trap() {
        let health = Health::default();
        let became: Vec<bool> = (0..15).map(|_| health.failed(&trap(), NOW)).collect();
        assert_eq!(became.iter().filter(|&&became| became).count(), 1);
        assert!(became[9], "the tenth failure makes the module failing");
        assert!(health.counts().failing);
        assert_eq!(health.counts().trapped, 15);
    }

    #[test]
    fn a_module_that_traps_in_at_most_half_of_its_requests_is_not_failing() {
        let health = Health::default();
        for _ in 0..50 {
            assert!(!health.failed(&trap(), NOW) || !health.counts().failing);
            health.succeeded();
            health.succeeded();
        }
        assert!(!health.counts().failing);
        assert_eq!(health.counts().requests, 150);
    }

    #[test]
    fn a_module_that_recovered_can_become_failing_again() {
        let health = Health::default();
        let fail = || (0..20).any(|_| health.failed(&trap(), NOW));
        assert!(fail());
        for _ in 0..20 {
            health.succeeded();
        }
        assert!(!health.counts().failing);
        assert!(fail());
    }

    #[test]
    fn passed_deadlines_and_busy_sandboxes_do_not_make_a_module_failing() {
        let health = Health::default();
        for _ in 0..20 {
            let module = String::from("x");
            assert!(!health.failed(
                &CallError::Busy {
                    module: module.clone()
                },
                NOW
            ));
            assert!(!health.failed(&CallError::Deadline { module }, NOW));
        }
        let counts = health.counts();
        assert_eq!((counts.busy, counts.late, counts.failing), (20, 20, false));
        assert!(counts.last.unwrap().1.contains("deadline"));
    }
}
