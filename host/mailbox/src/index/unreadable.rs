//! The messages that the mail server fails to return, for example because a file is damaged. The
//! search index omits these messages, so that the other messages can be found.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use latchmail_core::message_number::MessageNumber;

/// Maximum number of attempts to read a message.
const MAX_ATTEMPTS: u32 = 5;

/// The time between the first failed attempt and the next attempt. The time doubles with each
/// failed attempt.
const RETRY_INTERVAL: Duration = Duration::from_mins(10);

/// The failed attempts to read the messages of an account, by message number.
#[derive(Default)]
pub(super) struct UnreadableMessages(HashMap<MessageNumber, Attempts>);

struct Attempts {
    count: u32,
    last: Instant,
}

impl UnreadableMessages {
    /// Records a failed attempt. Returns the number of failed attempts.
    pub(super) fn add(&mut self, number: MessageNumber, now: Instant) -> u32 {
        let attempts = self.0.entry(number).or_insert(Attempts {
            count: 0,
            last: now,
        });
        attempts.count += 1;
        attempts.last = now;
        attempts.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if the message must not be read now.
    pub(super) fn is_skipped(&self, number: MessageNumber, now: Instant) -> bool {
        self.0.get(&number).is_some_and(|attempts| {
            let wait = RETRY_INTERVAL * (1 << (attempts.count - 1));
            attempts.count >= MAX_ATTEMPTS || now.duration_since(attempts.last) < wait
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_again_later_a_limited_number_of_times() {
        let mut unreadable = UnreadableMessages::default();
        let mut now = Instant::now();
        assert!(!unreadable.is_skipped(MessageNumber(1), now));
        for attempt in 1..=MAX_ATTEMPTS {
            assert_eq!(unreadable.add(MessageNumber(1), now), attempt);
            assert!(
                unreadable.is_skipped(MessageNumber(1), now)
                    && !unreadable.is_skipped(MessageNumber(2), now)
            );
            now += RETRY_INTERVAL * (1 << (attempt - 1));
            assert_eq!(
                unreadable.is_skipped(MessageNumber(1), now),
                attempt == MAX_ATTEMPTS
            );
        }
    }
}
