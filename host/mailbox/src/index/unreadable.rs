//! The messages that the mail server fails to return, for example because a file is damaged. The
//! index omits them, so that the other messages can be found.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Maximum number of attempts to read a message.
const MAX_ATTEMPTS: u32 = 5;

/// The time after the first failed attempt. The time doubles with each attempt.
const RETRY_INTERVAL: Duration = Duration::from_mins(10);

/// The failed attempts to read the messages of an account, by number.
#[derive(Default)]
pub(super) struct UnreadableMessages(HashMap<u64, Attempts>);

struct Attempts {
    count: u32,
    last: Instant,
}

impl UnreadableMessages {
    /// Records a failed attempt. Returns the number of failed attempts.
    pub(super) fn add(&mut self, uid: u64) -> u32 {
        let last = Instant::now();
        let attempts = self.0.entry(uid).or_insert(Attempts { count: 0, last });
        attempts.count += 1;
        attempts.last = last;
        attempts.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if the message must not be read now.
    pub(super) fn is_skipped(&self, uid: u64) -> bool {
        self.0.get(&uid).is_some_and(|attempts| {
            attempts.count >= MAX_ATTEMPTS
                || attempts.last.elapsed() < RETRY_INTERVAL * (1 << (attempts.count - 1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_again_later_a_limited_number_of_times() {
        let mut unreadable = UnreadableMessages::default();
        assert!(!unreadable.is_skipped(1));
        for attempt in 1..=MAX_ATTEMPTS {
            assert_eq!(unreadable.add(1), attempt);
            assert!(unreadable.is_skipped(1) && !unreadable.is_skipped(2));
            let wait = RETRY_INTERVAL * (1 << (attempt - 1));
            if let Some(attempts) = unreadable.0.get_mut(&1) {
                attempts.last -= wait;
            }
            assert_eq!(unreadable.is_skipped(1), attempt == MAX_ATTEMPTS);
        }
    }
}
