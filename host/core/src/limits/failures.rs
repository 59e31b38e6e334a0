//! Limits on failed attempts to sign in or to confirm a password.
//!
//! Each attempt counts as a failure until the attempt succeeds. So concurrent attempts cannot
//! exceed the limit together. Each key has a bucket that refills evenly over one minute (generic
//! cell rate algorithm, GCRA). The caller of this module selects the keys of an attempt.

use std::collections::HashMap;
use std::fmt;
use std::hash::RandomState;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Key, MAX_KEYS, MINUTE, SharedBudget, SharedBudgets, Taken, interval};
use crate::clock::Clock;
use crate::error::{Failure, Kind};

/// The failures of all keys.
pub struct Failures {
    clock: Clock,
    buckets: Mutex<Buckets>,
    hashes: RandomState,
    /// The budgets that hosts share, and the prefix of the names of these budgets in the shared
    /// store. `None` if each host has its own buckets.
    shared: Option<(Arc<dyn SharedBudgets>, &'static str)>,
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
        // Search for full buckets at most once per second. Otherwise a flood of new keys would
        // cause a search at each attempt.
        if self.full_at.len() >= MAX_KEYS && self.cleared.as_secs() != now.as_secs() {
            self.full_at.retain(|_, full_at| *full_at > now);
            self.cleared = now;
        }
        self.full_at.len() < MAX_KEYS
    }

    /// Removes an attempt from the count of failures.
    fn give_back(&mut self, counted: &[(Key, Duration)]) {
        for (key, interval) in counted {
            if let Some(full_at) = self.full_at.get_mut(key) {
                *full_at = full_at.saturating_sub(*interval);
            }
        }
    }
}

/// A started attempt. The attempt counts as a failure unless [`succeeded`](Self::succeeded) is
/// called.
#[must_use]
pub struct Attempt<'f> {
    failures: &'f Failures,
    counted: Counted,
}

/// The buckets that a started attempt counts towards. If the attempt succeeds, it is removed from
/// these buckets.
enum Counted {
    /// Buckets of this process, with the interval of each key.
    InProcess(Vec<(Key, Duration)>),
    /// Budgets that hosts share.
    Shared(Vec<SharedBudget>),
}

impl Failures {
    /// Creates an empty set of failures.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            buckets: Mutex::default(),
            hashes: RandomState::new(),
            shared: None,
        }
    }

    /// Shares the failures with other hosts. `purpose` is the prefix of the names of the budgets in
    /// the shared store.
    #[must_use]
    pub fn with_shared(mut self, budgets: Arc<dyn SharedBudgets>, purpose: &'static str) -> Self {
        self.share(budgets, purpose);
        self
    }

    /// Shares the failures with other hosts, like [`Self::with_shared`], but changes `self`.
    pub(super) fn share(&mut self, budgets: Arc<dyn SharedBudgets>, purpose: &'static str) {
        self.shared = Some((budgets, purpose));
    }

    /// Starts an attempt that counts towards each key in `keys`. Each key has a maximum number of
    /// failures per minute.
    ///
    /// # Errors
    /// Returns [`Kind::RateLimited`] if the limit of a key is reached. In this case, the attempt
    /// counts towards no key.
    pub async fn attempt(
        &self,
        keys: impl IntoIterator<Item = (Key, NonZeroU32)>,
    ) -> Result<Attempt<'_>, Failure> {
        let keys: Vec<_> = keys.into_iter().collect();
        if let Some((budgets, purpose)) = &self.shared
            && budgets.is_available()
            && let Some(result) = self.attempt_shared(&**budgets, purpose, &keys).await
        {
            return result;
        }
        self.attempt_in_process(keys)
    }

    /// Counts the attempt in the budgets that hosts share. Returns `None` if these budgets are
    /// unavailable.
    async fn attempt_shared(
        &self,
        budgets: &dyn SharedBudgets,
        purpose: &str,
        keys: &[(Key, NonZeroU32)],
    ) -> Option<Result<Attempt<'_>, Failure>> {
        let counted: Vec<_> = keys
            .iter()
            .map(|(key, limit)| SharedBudget::of_failures(purpose, *limit, key))
            .collect();
        Some(match budgets.take(&counted).await? {
            Taken::Accepted { .. } => Ok(Attempt {
                failures: self,
                counted: Counted::Shared(counted),
            }),
            Taken::Rejected { index, full_in } => {
                let (budget, (_, limit)) = (counted.get(index)?, keys.get(index)?);
                Err(self.rejected(*limit, budget.wait(full_in), full_in))
            }
        })
    }

    fn attempt_in_process(&self, keys: Vec<(Key, NonZeroU32)>) -> Result<Attempt<'_>, Failure> {
        let now = self.clock.monotonic();
        let mut counted = Vec::new();
        for (key, limit) in keys {
            let interval = interval(limit);
            let mut buckets = self.buckets();
            let key = if buckets.can_add_bucket(now) {
                key
            } else {
                key.merged(&self.hashes).into_owned()
            };
            let before = buckets.full_at.get(&key).copied().unwrap_or(now).max(now);
            let after = before + interval;
            if let Some(wait) = after
                .checked_sub(now + MINUTE)
                .filter(|wait| !wait.is_zero())
            {
                buckets.give_back(&counted);
                drop(buckets);
                return Err(self.rejected(limit, wait, before.saturating_sub(now)));
            }
            buckets.full_at.insert(key.clone(), after);
            counted.push((key, interval));
        }
        Ok(Attempt {
            failures: self,
            counted: Counted::InProcess(counted),
        })
    }

    /// Returns the failure of an attempt that a limit rejects. `wait` is the time until an attempt
    /// is accepted. `full_in` is the time until the bucket is completely refilled.
    fn rejected(&self, limit: NonZeroU32, wait: Duration, full_in: Duration) -> Failure {
        Failure::spent(limit.get(), wait, self.clock.now().plus(full_in))
    }

    fn buckets(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'f> Attempt<'f> {
    /// Removes the attempt from the count of failures, unless `result` is a failure of the kind
    /// [`Kind::Unauthorized`]. Only wrong credentials count as a failure.
    pub fn finish<T>(self, result: &Result<T, Failure>) -> impl Future<Output = ()> + use<'f, T> {
        let failed = matches!(result, Err(failure) if failure.kind == Kind::Unauthorized);
        async move {
            if !failed {
                self.succeeded().await;
            }
        }
    }

    /// Removes the attempt from the count of failures.
    pub async fn succeeded(self) {
        match self.counted {
            Counted::InProcess(counted) => self.failures.buckets().give_back(&counted),
            Counted::Shared(counted) => {
                if let Some((budgets, _)) = &self.failures.shared {
                    budgets.give_back(&counted).await;
                }
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
    use super::super::tests::done;
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
            let attempt = done(failures.attempt([(key("a"), FIVE)]));
            done(attempt.ok().unwrap().succeeded());
        }
        for _ in 0..5 {
            drop(done(failures.attempt([(key("a"), FIVE)])).ok().unwrap());
        }
        let refused = done(failures.attempt([(key("a"), FIVE)])).err().unwrap();
        let Kind::RateLimited(status) = refused.kind else {
            panic!("{refused:?}");
        };
        assert_eq!(status.retry_after, Some(12));
        assert!(done(failures.attempt([(key("b"), FIVE)])).is_ok());
        clock.advance(Duration::from_secs(12));
        drop(done(failures.attempt([(key("a"), FIVE)])).ok().unwrap());
        assert!(done(failures.attempt([(key("a"), FIVE)])).is_err());
    }

    #[test]
    fn attempts_at_the_same_time_cannot_exceed_the_limit() {
        let failures = Failures::new(Clock::manual(Timestamp::from_millis(0)));
        let begun: Vec<_> = (0..5)
            .map(|_| done(failures.attempt([(key("a"), FIVE)])).ok().unwrap())
            .collect();
        assert!(done(failures.attempt([(key("a"), FIVE)])).is_err());
        for attempt in begun {
            done(attempt.succeeded());
        }
        assert!(done(failures.attempt([(key("a"), FIVE)])).is_ok());
    }

    #[test]
    fn an_attempt_that_one_key_refuses_counts_towards_none() {
        let one = NonZeroU32::MIN;
        let failures = Failures::new(Clock::manual(Timestamp::from_millis(0)));
        drop(done(failures.attempt([(key("b"), one)])).ok().unwrap());
        for _ in 0..3 {
            let both = [(key("a"), one), (key("b"), one)];
            assert!(done(failures.attempt(both)).is_err());
        }
        assert!(done(failures.attempt([(key("a"), one)])).is_ok());
    }

    #[test]
    fn keys_whose_bucket_is_full_are_forgotten() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let failures = Failures::new(clock.clone());
        for n in 0..MAX_KEYS {
            drop(done(failures.attempt([(key(&n.to_string()), FIVE)])).ok());
        }
        clock.advance(MINUTE);
        drop(done(failures.attempt([(key("a"), FIVE)])).ok().unwrap());
        assert_eq!(failures.buckets().full_at.len(), 1);
    }
}
