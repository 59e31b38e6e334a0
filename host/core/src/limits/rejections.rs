//! Counts the requests that rate limits rejected. The counts are in the metric
//! [`metrics::RATE_LIMITED`]. This module also stores the time of the last rejection by each rate
//! limit, which the operator's page shows. Like the metrics, the times are global.

use std::array;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::Timestamp;
use crate::metrics;

/// The number of requests that a rate limit rejected since the start of the service, and the time
/// of the last one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rejections {
    /// The number of rejected requests.
    pub count: f64,
    /// The time of the last rejected request. `None` if no request was rejected.
    pub last_at: Option<Timestamp>,
}

/// The value in `LAST_AT` for a rate limit that has rejected no request.
const NEVER: i64 = i64::MIN;

/// The times of the last rejections, in the order of [`metrics::AREAS`].
static LAST_AT: LazyLock<[AtomicI64; metrics::AREAS.len()]> =
    LazyLock::new(|| array::from_fn(|_| AtomicI64::new(NEVER)));

fn last_at(area: &str) -> Option<&'static AtomicI64> {
    let index = metrics::AREAS.iter().position(|name| *name == area)?;
    LAST_AT.get(index)
}

/// Counts a request that a rate limit rejected. `area` is a value of the label `area` of the
/// metric.
pub fn record_rejection(area: &str, now: Timestamp) {
    metrics::RATE_LIMITED.increment([area]);
    if let Some(last_at) = last_at(area) {
        last_at.fetch_max(now.millis(), Ordering::Relaxed);
    }
}

/// Returns the requests that a rate limit rejected. `area` is a value of the label `area` of the
/// metric.
#[must_use]
pub fn rejections(area: &str) -> Rejections {
    let at = last_at(area).map(|at| at.load(Ordering::Relaxed));
    Rejections {
        count: metrics::RATE_LIMITED.with([area]).get(),
        last_at: at.filter(|at| *at != NEVER).map(Timestamp::from_millis),
    }
}
