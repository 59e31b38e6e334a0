//! The clock. Other modules read the time from [`Clock`] and not from the system, so that tests can
//! set the time.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};
use serde::{Serialize, Serializer};

/// A point in time in UTC, with millisecond precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a timestamp from milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Parses a time in the format of RFC 3339. Digits after the milliseconds are ignored. Returns
    /// `None` if the text is not such a time.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let time = DateTime::parse_from_rfc3339(text).ok()?;
        Some(Self(time.timestamp_millis()))
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Returns the whole seconds since 1970-01-01T00:00:00Z, rounded down.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Returns this timestamp plus `by`, or the last possible timestamp if the sum overflows.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// Returns this timestamp minus `by`, or the first possible timestamp if the difference
    /// overflows.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// Returns the time from `earlier` to this timestamp, or zero if `earlier` is after this
    /// timestamp.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns the date in UTC.
    #[must_use]
    pub fn date(self) -> NaiveDate {
        self.utc().date_naive()
    }

    /// Formats the timestamp as `YYYY-MM-DD HH:MM:SS`, the form in `snake_case` fields of the API.
    #[must_use]
    pub fn sql(self) -> String {
        self.utc().format("%Y-%m-%d %H:%M:%S").to_string()
    }

    /// Formats the timestamp as `Fri, 20 Nov 2026 08:00:00 GMT`, the form in HTTP's `Date` header
    /// (RFC 9110, section 5.6.7).
    #[must_use]
    pub fn http(self) -> String {
        self.utc().format("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    fn utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}

/// Formats the timestamp as `2026-11-20T08:00:00.000Z`, the form in camelCase fields of the API.
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

/// The system clock, or a manual clock for tests.
///
/// ```
/// use std::time::Duration;
///
/// use latchmail_core::clock::{Clock, Timestamp};
///
/// let clock = Clock::manual(Timestamp::from_millis(1_000));
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(clock.now().millis(), 3_000);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// Returns the system clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// Creates a clock that returns `start` until [`Clock::advance`] is called. Clones of this
    /// clock always return the same time.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(start.millis()))))
    }

    /// Returns the current time.
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

    /// Returns the time since a fixed moment, for measuring durations. Changes of the system time
    /// do not affect the result.
    #[must_use]
    pub fn monotonic(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        match &self.0 {
            Some(_) => self.now().since(Timestamp::from_millis(0)),
            None => START.elapsed(),
        }
    }

    /// Converts a time of this clock to an instant of the runtime's clock. If the time is too far
    /// in the future for an instant, returns an earlier instant.
    #[must_use]
    pub fn instant(&self, at: Timestamp) -> tokio::time::Instant {
        let now = tokio::time::Instant::now();
        now.checked_add(at.since(self.now()))
            .unwrap_or(now + Duration::from_hours(24))
    }

    /// Moves a manual clock forward. Has no effect on the system clock.
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
    fn an_instant_has_the_two_forms_of_the_api() {
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
