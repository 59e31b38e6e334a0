//! What follows after a call of a handler.

use std::time::Duration;

use latchmail_runtime::modules::{CallError, HandlerOutcome};

/// The delays after failed calls. A module is paused after one more failed call.
const DELAYS: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(2),
];
/// The shortest and the longest time after which a call is repeated if the module asks for it.
const MIN_RETRY: Duration = Duration::from_secs(1);
pub(crate) const MAX_RETRY: Duration = Duration::from_hours(24);
/// The delay if no sandbox was free.
const BUSY_DELAY: Duration = Duration::from_secs(2);
/// The delay if the host ended the call, because the account has reached a limit, for example of
/// new aliases per day.
const ENDED_DELAY: Duration = Duration::from_mins(1);

/// The maximum length of the reason of a pause, in characters.
const MAX_REASON: usize = 500;

/// What follows after a call of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The event or the due time is done.
    Done,
    /// The call is repeated after this time.
    Repeat {
        after: Duration,
        /// The number of consecutive failed calls.
        failures: i64,
    },
    /// The module is paused for this reason.
    Pause(String),
}

/// Returns what follows after a call. `failures` is the number of consecutive failed calls before
/// this call.
pub(crate) fn next(result: Result<HandlerOutcome, CallError>, failures: i64) -> Next {
    let error = match result {
        Ok(HandlerOutcome::Done) => return Next::Done,
        Ok(HandlerOutcome::Retry(after)) => {
            let after = after.clamp(MIN_RETRY, MAX_RETRY);
            return Next::Repeat { after, failures };
        }
        Ok(HandlerOutcome::Failed(reason)) => return Next::Pause(reason),
        // These are not faults of the module.
        Err(CallError::Busy { .. }) => {
            let after = BUSY_DELAY;
            return Next::Repeat { after, failures };
        }
        Err(CallError::EndedByHost { .. }) => {
            let after = ENDED_DELAY;
            return Next::Repeat { after, failures };
        }
        Err(error) => error,
    };
    let delay = usize::try_from(failures).ok();
    match delay.and_then(|index| DELAYS.get(index)) {
        Some(after) => Next::Repeat {
            after: *after,
            failures: failures + 1,
        },
        None => Next::Pause(one_line(&error.to_string())),
    }
}

/// Returns a text as one line of limited length. The text of a trap can come from the module.
fn one_line(text: &str) -> String {
    let characters = text.chars().take(MAX_REASON);
    characters
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trapped() -> CallError {
        CallError::Deadline {
            module: "rules".into(),
        }
    }

    #[test]
    fn a_module_that_fails_is_repeated_with_growing_delays_and_then_paused() {
        let mut failures = 0;
        for delay in DELAYS {
            let Next::Repeat {
                after,
                failures: now,
            } = next(Err(trapped()), failures)
            else {
                panic!("paused after {failures} failures");
            };
            assert_eq!((after, now), (delay, failures + 1));
            failures = now;
        }
        let paused = Next::Pause("module rules passed its deadline".into());
        assert_eq!(next(Err(trapped()), failures), paused);
    }

    #[test]
    fn a_retry_has_a_minimum_and_a_maximum_and_is_no_failure() {
        for (asked, after) in [
            (Duration::ZERO, MIN_RETRY),
            (Duration::from_secs(9), Duration::from_secs(9)),
            (Duration::MAX, MAX_RETRY),
        ] {
            let repeated = next(Ok(HandlerOutcome::Retry(asked)), 2);
            assert_eq!(repeated, Next::Repeat { after, failures: 2 });
        }
        let busy = CallError::Busy {
            module: "rules".into(),
        };
        let after = BUSY_DELAY;
        assert_eq!(next(Err(busy), 4), Next::Repeat { after, failures: 4 });
        let failed = next(Ok(HandlerOutcome::Failed("no".into())), 0);
        assert_eq!(failed, Next::Pause("no".into()));
        assert_eq!(next(Ok(HandlerOutcome::Done), 4), Next::Done);
    }
}
