//! Limits on failed attempts to sign in or to confirm a password.
//!
//! Each attempt counts as a failure until the attempt succeeds. So concurrent attempts cannot exceed the limit together. Each key has a bucket that refills
//! evenly over one minute (generic cell rate algorithm, GCRA). The caller of this module selects the keys of an attempt.

use std::collections::HashMap;
use std::fmt;
use std::hash::RandomState;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Key, MAX_KEYS};
use crate::clock::Clock;
use crate::error::{Failure, Kind};

/// The time in which an empty bucket refills.
const WINDOW: Duration = Duration::from_mins(1);

/// The failures of all keys.
pub struct Failures {
    clock: Clock,
    buckets: Mutex<Buckets>,
    hashes: RandomState,
}

/// The buckets of all keys. All times are from the monotonic clock.
#[derive(Default)]
struct Buckets {
    /// The time at which the bucket of each key is completely refilled.
    full_at: HashMap<Key, Duration>,
    /// The time at which full buckets were last removed.
    cleared: Duration,
}

impl Buckets {
    /// Returns `true` if another bucket can be stored.
    fn can_add_bucket(&mut self, now: Duration) -> bool {
        // Search for full buckets at most once per second. Otherwise a flood of new keys would cause a search at each attempt.
        if self.full_at.len() >= MAX_KEYS && self.cleared.as_secs() != now.as_secs() {
            self.full_at.retain(|_, full_at| *full_at > now);
            self.cleared = now;
        }
        self.full_at.len() < MAX_KEYS
    }
}

/// A started attempt. The attempt counts as a failure unless [`succeeded`](Self::succeeded) is called.
#[must_use]
pub struct Attempt<'f> {
    failures: &'f Failures,
    counted: Vec<(Key, Duration)>,
}

impl Failures {
    /// Creates an empty set of failures.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            buckets: Mutex::default(),
            hashes: RandomState::new(),
        }
    }

    /// Starts an attempt that counts towards each key in `keys`. Each key has a maximum number of failures per minute.
    ///
    /// # Errors
    /// Returns [`Kind::RateLimited`] if the limit of a key is reached. In this case, the attempt counts towards no key.
    pub fn attempt(
        &self,
        keys: impl IntoIterator<Item = (Key, NonZeroU32)>,
    ) -> Result<Attempt<'_>, Failure> {
        let now = self.clock.monotonic();
        let mut attempt = Attempt {
            failures: self,
            counted: Vec::new(),
        };
        for (key, limit) in keys {
            let interval = WINDOW / limit.get();
            let mut buckets = self.buckets();
            let key = if buckets.can_add_bucket(now) {
                key
            } else {
                key.merged(&self.hashes).into_owned()
            };
            let before = buckets.full_at.get(&key).copied().unwrap_or(now).max(now);
            let after = before + interval;
            if let Some(wait) = after
                .checked_sub(now + WINDOW)
                .filter(|wait| !wait.is_zero())
            {
                drop(buckets);
                attempt.succeeded();
                let reset = self.clock.now().plus(before.saturating_sub(now));
                return Err(Failure::spent(limit.get(), wait, reset));
            }
            buckets.full_at.insert(key.clone(), after);
            attempt.counted.push((key, interval));
        }
        Ok(attempt)
    }

    fn buckets(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt<'_> {
    /// Removes the attempt from the count of failures, unless `result` is a failure of the kind [`Kind::Unauthorized`]. Only wrong credentials count as a
    /// failure.
    pub fn finish<T>(self, result: &Result<T, Failure>) {
        if !matches!(result, Err(failure) if failure.kind == Kind::Unauthorized) {
            self.succeeded();
        }
    }

    /// Removes the attempt from the count of failures.
    pub fn succeeded(self) {
        let mut buckets = self.failures.buckets();
        for (key, interval) in self.counted {
            if let Some(full_at) = buckets.full_at.get_mut(&key) {
                *full_at = full_at.saturating_sub(interval);
            }
        }
    }
}

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failures").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    const FIVE: NonZeroU32 = NonZeroU32::new(5).unwrap();

    fn key(address: &str) -> Key {
        Key::Address(address.into())
    }

    #[test]
    fn failures_count_and_successes_do_not() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let failures = Failures::new(clock.clone());
        for _ in 0..20 {
            failures
                .attempt([(key("a"), FIVE)])
                .ok()
                .unwrap()
                .succeeded();
        }
        for _ in 0..5 {
            drop(failures.attempt([(key("a"), FIVE)]).ok().unwrap());
        }
        let refused = failures.attempt([(key("a"), FIVE)]).err().unwrap();
        let Kind::RateLimited(verdict) = refused.kind else {
            panic!("{refused:?}");
        };
        assert_eq!(verdict.retry_after, Some(12));
        assert!(failures.attempt([(key("b"), FIVE)]).is_ok());
        clock.advance(Duration::from_secs(12));
        drop(failures.attempt([(key("a"), FIVE)]).ok().unwrap());
        assert!(failures.attempt([(key("a"), FIVE)]).is_err());
    }

    #[test]
    fn attempts_at_the_same_time_cannot_exceed_the_limit() {
        let failures = Failures::new(Clock::manual(Timestamp::from_millis(0)));
        let begun: Vec<_> = (0..5)
            .map(|_| failures.attempt([(key("a"), FIVE)]).ok().unwrap())
            .collect();
        assert!(failures.attempt([(key("a"), FIVE)]).is_err());
        begun.into_iter().for_each(Attempt::succeeded);
        assert!(failures.attempt([(key("a"), FIVE)]).is_ok());
    }

    #[test]
    fn an_attempt_that_one_key_refuses_counts_towards_none() {
        let one = NonZeroU32::MIN;
        let failures = Failures::new(Clock::manual(Timestamp::from_millis(0)));
        drop(failures.attempt([(key("b"), one)]).ok().unwrap());
        for _ in 0..3 {
            let both = [(key("a"), one), (key("b"), one)];
            assert!(failures.attempt(both).is_err());
        }
        assert!(failures.attempt([(key("a"), one)]).is_ok());
    }

    #[test]
    fn keys_whose_bucket_is_full_are_forgotten() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let failures = Failures::new(clock.clone());
        for n in 0..MAX_KEYS {
            drop(failures.attempt([(key(&n.to_string()), FIVE)]).ok());
        }
        clock.advance(WINDOW);
        drop(failures.attempt([(key("a"), FIVE)]).ok().unwrap());
        assert_eq!(failures.buckets().full_at.len(), 1);
    }
}
