//! Remembers, in the memory of this host, which receivers were verified, and limits the number of
//! verifications.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use latchmail_core::clock::Clock;
use latchmail_core::limits::{Failures, Key};
use tokio::time::Instant;

/// The time for which a verified receiver needs no further verification.
const VERIFIED: Duration = Duration::from_hours(24);
/// Maximum number of verifications of one receiver for one credential per minute, on this host.
const MAX_OF_CREDENTIAL: NonZeroU32 = NonZeroU32::new(10).unwrap();
/// Maximum number of verifications of one receiver for all credentials per minute, on this host.
/// Clients of one vendor have the same receiver, so this limit protects only the receiver.
const MAX_OF_RECEIVER: NonZeroU32 = NonZeroU32::new(300).unwrap();
/// Maximum number of receivers that are remembered.
const CAPACITY: usize = 10_000;

/// The receivers that were verified a short time ago, and the numbers of verifications.
#[derive(Debug)]
pub(crate) struct Verified {
    /// The times of verifications, by the credential and the URL.
    verified: Mutex<HashMap<(String, String), Instant>>,
    /// The verifications. Successful ones count too.
    counts: Failures,
}

impl Verified {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            verified: Mutex::default(),
            counts: Failures::new(clock),
        }
    }

    pub(crate) fn contains(&self, key: &(String, String)) -> bool {
        let verified = self.verified.lock();
        let verified = verified.unwrap_or_else(PoisonError::into_inner);
        verified.get(key).is_some_and(|at| at.elapsed() < VERIFIED)
    }

    pub(crate) fn insert(&self, key: (String, String)) {
        let verified = self.verified.lock();
        let mut verified = verified.unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= CAPACITY {
            verified.clear();
        }
        verified.insert(key, Instant::now());
    }

    /// Counts a verification.
    ///
    /// # Errors
    /// Returns the name of a limit and the limit if the receiver was verified too often.
    pub(crate) async fn count(
        &self,
        credential: &str,
        receiver: &str,
    ) -> Result<(), (&'static str, u32)> {
        // A verification that the first limit refuses does not count towards the second.
        for (credential, limit, max) in [
            (Some(credential), "verifications", MAX_OF_CREDENTIAL),
            (None, "receiver_verifications", MAX_OF_RECEIVER),
        ] {
            let key = Key::Receiver(receiver.into(), credential.map(Into::into));
            if self.counts.attempt([(key, max)]).await.is_err() {
                return Err((limit, max.get()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use latchmail_core::clock::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_number_of_verifications_of_a_receiver_is_limited() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let verified = Verified::new(clock.clone());
        let receiver = "https://example.com";
        let count = async |credential: &str| verified.count(credential, receiver).await;
        for _ in 0..10 {
            assert_eq!(count("c").await, Ok(()));
        }
        for _ in 0..300 {
            assert_eq!(count("c").await, Err(("verifications", 10)));
        }
        assert_eq!(verified.count("c", "https://example.net").await, Ok(()));
        // Another credential has verifications of its own, until the receiver has its maximum.
        for number in 10..300 {
            assert_eq!(count(&format!("d{}", number / 10)).await, Ok(()));
        }
        assert_eq!(count("e").await, Err(("receiver_verifications", 300)));
        clock.advance(Duration::from_mins(1));
        assert_eq!(count("c").await, Ok(()));
        let key = || ("c".to_owned(), "https://example.com/a".to_owned());
        assert!(!verified.contains(&key()));
        verified.insert(key());
        assert!(verified.contains(&key()));
        tokio::time::advance(VERIFIED).await;
        assert!(!verified.contains(&key()));
    }
}
