//! The times between the attempts to send an event.

use std::time::Duration;

/// The waits after the first failures. The last wait repeats.
const WAITS: [Duration; 9] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(2),
    Duration::from_mins(10),
    Duration::from_mins(30),
    Duration::from_hours(1),
    Duration::from_hours(2),
    Duration::from_hours(4),
];
/// Maximum number of attempts for one event. The last attempt is about 24 hours after the first.
const ATTEMPTS: i64 = 14;
/// The time after which a webhook without a success is disabled.
pub(crate) const MAX_FAILING: Duration = Duration::from_hours(3 * 24);
/// The number of failed attempts for an event before which a webhook is not disabled, because the
/// mailbox can have had no events for days.
pub(crate) const MIN_FAILURES: i64 = 3;

/// Returns the time until the next attempt after `attempts` failures. Adds up to a tenth of the
/// time, so that the receiver of many webhooks does not get all events at the same moment. Returns
/// `None` if no attempt follows.
pub(crate) fn wait(attempts: i64, jitter: u8) -> Option<Duration> {
    if attempts >= ATTEMPTS {
        return None;
    }
    let index = usize::try_from(attempts - 1).unwrap_or(0);
    let wait = WAITS[index.min(WAITS.len() - 1)];
    Some(wait + wait * u32::from(jitter) / 2560)
}

/// Returns `true` if an attempt that is due in `rest` must wait. An attempt that would wait longer
/// than an attempt after `attempts` failures can wait is due: the clock was set back.
pub(crate) fn is_early(rest: Duration, attempts: i64) -> bool {
    !rest.is_zero() && wait(attempts, u8::MAX).is_some_and(|longest| rest <= longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_waits_too_long_is_due_because_the_clock_was_set_back() {
        for attempts in 1..ATTEMPTS {
            let longest = wait(attempts, u8::MAX).unwrap();
            assert!(is_early(Duration::from_millis(1), attempts));
            assert!(is_early(longest, attempts));
            assert!(!is_early(longest + Duration::from_millis(1), attempts));
            assert!(!is_early(Duration::ZERO, attempts));
        }
        // The first attempt is due when the event is stored.
        assert!(!is_early(Duration::from_hours(1), 0));
    }

    #[test]
    fn the_attempts_end_after_about_a_day() {
        let waits: Vec<_> = (1..).map_while(|attempts| wait(attempts, 0)).collect();
        assert_eq!(
            waits[..5].iter().map(Duration::as_secs).collect::<Vec<_>>(),
            [1, 5, 30, 120, 600]
        );
        let total: Duration = waits.iter().sum();
        assert!(
            total > Duration::from_hours(23) && total < Duration::from_hours(25),
            "{total:?}"
        );
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(wait(1, 255).unwrap() < Duration::from_millis(1100));
        assert_eq!(wait(0, 0), wait(1, 0));
    }
}
