//! Counts the requests that each rate limit rejected, for the operator's page.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::Bucket;
use crate::clock::Timestamp;

/// The requests that a rate limit rejected since the start of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejections {
    /// The number of requests.
    pub count: u64,
    /// The time of the last request. `None` if there was no such request.
    pub last_at: Option<Timestamp>,
}

/// The counters of all buckets.
#[derive(Debug, Default)]
pub(super) struct Counters([Counter; Bucket::ALL.len()]);

#[derive(Debug, Default)]
struct Counter {
    count: AtomicU64,
    last_at: AtomicI64,
}

impl Counters {
    /// Counts a rejected request.
    pub(super) fn count(&self, bucket: Bucket, now: Timestamp) {
        let counter = &self.0[bucket as usize];
        counter.last_at.fetch_max(now.millis(), Ordering::Relaxed);
        counter.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn of(&self, bucket: Bucket) -> Rejections {
        let counter = &self.0[bucket as usize];
        let count = counter.count.load(Ordering::Relaxed);
        let last_at = Timestamp::from_millis(counter.last_at.load(Ordering::Relaxed));
        Rejections {
            count,
            last_at: (count > 0).then_some(last_at),
        }
    }
}
