//! The time, passed in: no other file asks the system for it, so that a test can say `clock.advance(...)`.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};
use serde::{Serialize, Serializer};

/// An instant, UTC, to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant `millis` milliseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970-01-01T00:00:00Z, rounded down.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This instant moved on by `by`; the last instant there is where that cannot be told.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// So much earlier.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// How long after `earlier` this is; zero when it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The day it is in UTC.
    #[must_use]
    pub fn date(self) -> NaiveDate {
        self.utc().date_naive()
    }

    /// `YYYY-MM-DD HH:MM:SS`, the form of the `snake_case` fields (specification, section 1).
    #[must_use]
    pub fn sql(self) -> String {
        self.utc().format("%Y-%m-%d %H:%M:%S").to_string()
    }

    /// `Fri, 20 Nov 2026 08:00:00 GMT`, the form of HTTP's `Date` (RFC 9110, section 5.6.7).
    #[must_use]
    pub fn http(self) -> String {
        self.utc().format("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    fn utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}

/// `2026-11-20T08:00:00.000Z`, the form of the camelCase fields.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.utc().to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Tells the time: the system's, or a test's own.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The system's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// A clock that stands at `start` until it is moved; its clones move with it.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(start.millis()))))
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(manual) => Timestamp(manual.load(Ordering::SeqCst)),
            None => Timestamp(
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
            ),
        }
    }

    /// How long ago some fixed moment was. It never goes back, as the time of day does when the system's clock is set: for measuring
    /// what has passed, not for telling when it was.
    #[must_use]
    pub fn monotonic(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        match &self.0 {
            Some(_) => self.now().since(Timestamp::from_millis(0)),
            None => START.elapsed(),
        }
    }

    /// Moves a manual clock on; the system's clock does not heed it.
    pub fn advance(&self, by: Duration) {
        if let Some(manual) = &self.0 {
            manual.fetch_add(
                i64::try_from(by.as_millis()).unwrap_or(i64::MAX),
                Ordering::SeqCst,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_has_the_two_forms_of_the_specification() {
        let instant = Timestamp::from_millis(1_795_161_600_042);
        assert_eq!(instant.to_string(), "2026-11-20T08:00:00.042Z");
        assert_eq!(instant.sql(), "2026-11-20 08:00:00");
        assert_eq!(instant.http(), "Fri, 20 Nov 2026 08:00:00 GMT");
    }

    #[test]
    fn a_manual_clock_stands_until_it_is_moved() {
        let clock = Clock::manual(Timestamp::from_millis(5));
        let twin = clock.clone();
        clock.advance(Duration::from_secs(1));
        assert_eq!(twin.now(), Timestamp::from_millis(1005));
    }
}
