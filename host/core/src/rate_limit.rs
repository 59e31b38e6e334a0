//! The result of counting a request towards a rate limit.

use std::time::Duration;

use crate::clock::Timestamp;

/// The state of a bucket after a request was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitStatus {
    /// The limit, in requests per minute.
    pub limit: u32,
    /// The number of further requests that the bucket accepts immediately, or 0 if this request was
    /// rejected.
    pub remaining: u32,
    /// The time at which the bucket is completely refilled, in seconds since the Unix epoch.
    pub reset: i64,
    /// The number of seconds until a request is accepted, at least 1. `None` if this request was
    /// accepted.
    pub retry_after: Option<u64>,
}

impl RateLimitStatus {
    /// Creates the state of a bucket. `reset` is the time at which the bucket is completely
    /// refilled. `wait` is the time until a request is accepted, or `None` if this request was
    /// accepted. Both times are rounded up to whole seconds.
    #[must_use]
    pub fn new(limit: u32, remaining: u32, reset: Timestamp, wait: Option<Duration>) -> Self {
        let whole = |wait: Duration| (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1);
        Self {
            limit,
            remaining,
            reset: reset.plus(Duration::from_millis(999)).seconds(),
            retry_after: wait.map(whole),
        }
    }
}
