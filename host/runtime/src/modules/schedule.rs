//! The schedules of timers: intervals, and cron expressions in UTC.

use std::fmt;
use std::time::Duration;

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions};
use latchmail_core::clock::Timestamp;

/// The minimum interval of a timer.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// The maximum length of a cron expression, in bytes.
const MAX_CRON: usize = 256;

/// The due times of a timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// One due time in each interval of this duration, which is at least 5 seconds.
    Every(Duration),
    /// The due times of a cron expression.
    Cron(Cron),
}

/// A cron expression in UTC.
#[derive(Clone)]
pub struct Cron {
    text: String,
    crontab: Box<Crontab>,
}

impl Cron {
    /// Returns the expression, with single spaces between its fields.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Schedule {
    /// Creates an interval. The error is a phrase that follows the name of the timer.
    pub(super) fn every(seconds: u32) -> Result<Self, String> {
        let every = Duration::from_secs(seconds.into());
        if every < MIN_INTERVAL {
            return Err(format!(
                "has an interval of {seconds} s; the minimum is {} s",
                MIN_INTERVAL.as_secs()
            ));
        }
        Ok(Self::Every(every))
    }

    /// Parses a cron expression. The error is a phrase that follows the name of the timer.
    ///
    /// Only the standard syntax is accepted: numbers, names, `*`, lists, ranges and steps. The
    /// parser knows more, such as `L` and `W`, but does not find all due times for it (cronexpr
    /// 1.7.0: `L` never matches in December).
    pub(super) fn cron(text: &str) -> Result<Self, String> {
        let invalid = |reason: &str| {
            let shown: String = text.chars().take(MAX_CRON).collect();
            format!("has the invalid cron expression {shown:?}: {reason}")
        };
        if text.len() > MAX_CRON {
            return Err(invalid("it is longer than 256 bytes"));
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        if fields.len() != 5 {
            return Err(invalid("it does not have five fields"));
        }
        let is_standard = |field: &&str| {
            let mut words = field.split(|c: char| !c.is_ascii_alphabetic());
            let is_known = |c: char| c.is_ascii_alphanumeric() || "*,-/".contains(c);
            field.chars().all(is_known) && words.all(|word| [0, 3].contains(&word.len()))
        };
        if !fields.iter().all(is_standard) {
            return Err(invalid(
                "a field can have only numbers, names with three letters, `*`, `,`, `-` and `/`",
            ));
        }
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let text = fields.join(" ");
        match cronexpr::parse_crontab_with(&text, options) {
            Ok(crontab) => Ok(Self::Cron(Cron {
                text,
                crontab: Box::new(crontab),
            })),
            Err(error) => {
                // The last line of the error has the reason after a mark below the field.
                let error = error.to_string();
                let reason = error.lines().last().unwrap_or_default();
                Err(invalid(reason.trim_start_matches([' ', '^'])))
            }
        }
    }

    /// Returns the first due time after `time`. Returns `None` if there is none in the next four
    /// years, for example for February 30. `offset` shifts the due times of an interval, which are
    /// otherwise multiples of the interval since 1970. It has no effect on a cron expression.
    #[must_use]
    pub fn next_after(&self, time: Timestamp, offset: Duration) -> Option<Timestamp> {
        match self {
            Self::Every(every) => {
                let every = i64::try_from(every.as_millis()).ok()?;
                let offset = i64::try_from(offset.as_millis()).ok()?.checked_rem(every)?;
                let passed = time.millis().checked_sub(offset)?.div_euclid(every);
                let next = passed.checked_add(1)?.checked_mul(every)?;
                Some(Timestamp::from_millis(next.checked_add(offset)?))
            }
            Self::Cron(cron) => {
                let after = MakeTimestamp::from_millisecond(time.millis()).ok()?;
                let next = cron.crontab.find_next(after).ok()?;
                Some(Timestamp::from_millis(next.timestamp().as_millisecond()))
            }
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(every) => write!(f, "every {} s", every.as_secs()),
            Self::Cron(cron) => write!(f, "at {} (UTC)", cron.text),
        }
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cron").field(&self.text).finish()
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Cron {}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1000;
    const DAY: i64 = 86_400 * SECOND;
    /// Friday, 2026-11-20T08:00:00Z.
    const NOW: i64 = 1_795_161_600_000;

    fn next(schedule: &Schedule, after: i64, offset: u64) -> Option<i64> {
        let next = schedule.next_after(Timestamp::from_millis(after), Duration::from_secs(offset));
        next.map(Timestamp::millis)
    }

    #[test]
    fn an_interval_has_one_due_time_in_each_period_shifted_by_the_offset() {
        let schedule = Schedule::every(60).unwrap();
        assert_eq!(next(&schedule, 0, 0), Some(60 * SECOND));
        assert_eq!(next(&schedule, 60 * SECOND - 1, 0), Some(60 * SECOND));
        assert_eq!(next(&schedule, 60 * SECOND, 0), Some(120 * SECOND));
        assert_eq!(next(&schedule, 0, 7), Some(7 * SECOND));
        assert_eq!(next(&schedule, 7 * SECOND, 7), Some(67 * SECOND));
        assert_eq!(next(&schedule, 0, 67), Some(7 * SECOND));
        assert_eq!(next(&schedule, i64::MAX, 0), None);
    }

    #[test]
    fn a_cron_expression_is_in_utc_and_counts_sunday_as_0() {
        let schedule = |text| Schedule::cron(text).unwrap();
        let weekday = schedule("30 7 * * 1-5");
        // The next working day after Friday at 8 is Monday.
        let monday = NOW + 3 * DAY - 30 * 60 * SECOND;
        assert_eq!(next(&weekday, NOW, 0), Some(monday));
        assert_eq!(next(&schedule("30  7 * * mon-fri"), NOW, 59), Some(monday));
        assert_eq!(next(&schedule("0 8 * * 0"), NOW, 0), Some(NOW + 2 * DAY));
        let minute = schedule("*/15 * * * *");
        assert_eq!(next(&minute, NOW, 0), Some(NOW + 15 * 60 * SECOND));
        assert_eq!(next(&minute, NOW - 1, 0), Some(NOW));
    }

    #[test]
    fn a_day_of_the_month_and_a_day_of_the_week_are_alternatives() {
        let schedule = Schedule::cron("0 8 1 * SAT").unwrap();
        let saturday = NOW + DAY;
        assert_eq!(next(&schedule, NOW, 0), Some(saturday));
        let first = NOW + 11 * DAY;
        assert_eq!(next(&schedule, saturday + 7 * DAY, 0), Some(first));
    }

    #[test]
    fn a_date_that_does_not_exist_has_no_due_time() {
        assert_eq!(next(&Schedule::cron("0 0 30 2 *").unwrap(), NOW, 0), None);
    }

    #[test]
    fn invalid_schedules_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "five fields"),
            ("* * * *", "five fields"),
            ("0 7 * * * UTC", "five fields"),
            ("@daily", "five fields"),
            ("61 * * * *", "61"),
            ("0 0 L * *", "names with three letters"),
            ("0 0 * * 5#3", "names with three letters"),
            ("0 0 15W * *", "names with three letters"),
            ("0 0 * foo *", "cron expression \"0 0 * foo *\""),
        ] {
            let error = Schedule::cron(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(!error.contains('\n') && !error.contains('^'), "{error}");
        }
        let long = "1,".repeat(200) + "1 * * * *";
        assert!(Schedule::cron(&long).unwrap_err().contains("256 bytes"));
        let error = Schedule::every(4).unwrap_err();
        assert_eq!(error, "has an interval of 4 s; the minimum is 5 s");
        assert!(Schedule::every(5).is_ok());
    }
}
