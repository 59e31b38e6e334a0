//! The health of a module: counts of the results of its requests, and whether most of the latest requests failed.
//!
//! This module only counts. The caller decides what to do about a failing module.

use std::sync::{Mutex, MutexGuard, PoisonError};

use latchmail_core::clock::Timestamp;

use super::CallError;
use crate::api::bounded;

/// The number of latest requests that decide whether a module is failing.
const WINDOW: u32 = 20;

/// The minimum number of requests for that decision.
const ENOUGH: u32 = 10;

/// The results of the requests of a module since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All finished requests.
    pub requests: u64,
    /// Requests that trapped, including those that exceeded the memory or CPU limit.
    pub trapped: u64,
    /// Requests with an invalid response.
    pub wrong: u64,
    /// Requests that exceeded their deadline.
    pub late: u64,
    /// Requests for which no sandbox became free in time.
    pub busy: u64,
    /// The time and the text of the last error.
    pub last: Option<(Timestamp, String)>,
    /// Whether most of the latest requests trapped or had an invalid response.
    pub failing: bool,
}

/// The health of one module.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    /// One bit for each of the latest requests, the newest in the lowest bit. A set bit is a failure.
    latest: u32,
    seen: u32,
}

impl Health {
    /// Records a successful request.
    pub(crate) fn answered(&self) {
        let mut state = self.state();
        state.counts.requests += 1;
        state.saw(false);
    }

    /// Records a failed request. Returns whether the module became failing with this request.
    pub(crate) fn failed(&self, error: &CallError, now: Timestamp) -> bool {
        let mut state = self.state();
        state.counts.requests += 1;
        state.counts.last = Some((now, bounded(&error.to_string())));
        match error {
            CallError::Trapped { .. } => state.counts.trapped += 1,
            CallError::Answer { .. } => state.counts.wrong += 1,
            CallError::Deadline { .. } => {
                state.counts.late += 1;
                return false;
            }
            CallError::Busy { .. } => {
                state.counts.busy += 1;
                return false;
            }
            CallError::Refused { .. } => return false,
        }
        state.saw(true)
    }

    /// Returns the current counts.
    pub(crate) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Ignores a poisoned lock: the counts remain usable after a panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Records one result. Returns whether the module became failing with it.
    fn saw(&mut self, failed: bool) -> bool {
        self.latest = ((self.latest << 1) | u32::from(failed)) & ((1 << WINDOW) - 1);
        self.seen = (self.seen + 1).min(WINDOW);
        let before = self.counts.failing;
        self.counts.failing = self.seen >= ENOUGH && self.latest.count_ones() * 2 > self.seen;
        self.counts.failing && !before
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
    fn a_module_fails_when_most_of_its_latest_requests_trap_and_is_said_to_once() {
        let health = Health::default();
        let said: Vec<bool> = (0..15).map(|_| health.failed(&trap(), NOW)).collect();
        assert_eq!(said.iter().filter(|&&said| said).count(), 1);
        assert!(said[9], "the tenth is enough");
        assert!(health.counts().failing);
        assert_eq!(health.counts().trapped, 15);
    }

    #[test]
    fn a_module_that_traps_on_half_of_its_requests_or_less_is_not_failing() {
        let health = Health::default();
        for _ in 0..50 {
            assert!(!health.failed(&trap(), NOW) || !health.counts().failing);
            health.answered();
            health.answered();
        }
        assert!(!health.counts().failing);
        assert_eq!(health.counts().requests, 150);
    }

    #[test]
    fn a_module_that_recovers_may_fail_again() {
        let health = Health::default();
        let fail = || (0..20).any(|_| health.failed(&trap(), NOW));
        assert!(fail());
        for _ in 0..20 {
            health.answered();
        }
        assert!(!health.counts().failing);
        assert!(fail());
    }

    #[test]
    fn who_is_late_or_finds_no_place_is_counted_and_does_not_make_a_module_fail() {
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
