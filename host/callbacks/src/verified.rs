//! Remembers, in the memory of this host, which receivers were verified.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time for which a verified receiver needs no further verification.
const VERIFIED: Duration = Duration::from_hours(24);
/// Maximum number of verifications of one receiver for one credential per minute, on this host.
const MAX_OF_CREDENTIAL: u32 = 10;
/// Maximum number of verifications of one receiver for all credentials per minute, on this host.
/// Clients of one vendor have the same receiver, so this limit protects only the receiver.
const MAX_OF_RECEIVER: u32 = 300;
const MINUTE: Duration = Duration::from_mins(1);
/// Maximum number of receivers that are remembered.
const CAPACITY: usize = 10_000;

/// The receivers that were verified a short time ago, and the numbers of verifications.
#[derive(Debug, Default)]
pub(crate) struct Verified(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The times of verifications, by the credential and the URL.
    verified: HashMap<(String, String), Instant>,
    /// The start of the current minute and the number of verifications, by the credential and the
    /// receiver. The credential is empty for the number of all credentials.
    counts: HashMap<(String, String), (Instant, u32)>,
}

impl Verified {
    pub(crate) fn contains(&self, key: &(String, String)) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let verified = state.verified.get(key);
        verified.is_some_and(|at| at.elapsed() < VERIFIED)
    }

    pub(crate) fn insert(&self, key: (String, String)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.verified.len() >= CAPACITY {
            state.verified.clear();
        }
        state.verified.insert(key, Instant::now());
    }

    /// Counts a verification.
    ///
    /// # Errors
    /// Returns the name of a limit and the limit if the receiver was verified too often.
    pub(crate) fn count(
        &self,
        credential: &str,
        receiver: &str,
    ) -> Result<(), (&'static str, u32)> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = &mut state.counts;
        if counts.len() >= CAPACITY {
            counts.retain(|_, (start, _)| start.elapsed() < MINUTE);
        }
        // A verification that the first limit refuses does not count towards the second.
        for (credential, limit, max) in [
            (credential, "verifications", MAX_OF_CREDENTIAL),
            ("", "receiver_verifications", MAX_OF_RECEIVER),
        ] {
            let key = (credential.to_owned(), receiver.to_owned());
            if counts.len() >= CAPACITY && !counts.contains_key(&key) {
                return Err((limit, max));
            }
            let (start, count) = counts.entry(key).or_insert((Instant::now(), 0));
            if start.elapsed() >= MINUTE {
                (*start, *count) = (Instant::now(), 0);
            }
            *count += 1;
            if *count > max {
                return Err((limit, max));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_number_of_verifications_of_a_receiver_is_limited() {
        let verified = Verified::default();
        let count = |credential: &str| verified.count(credential, "https://example.com");
        for _ in 0..MAX_OF_CREDENTIAL {
            assert_eq!(count("c"), Ok(()));
        }
        for _ in 0..MAX_OF_RECEIVER {
            assert_eq!(count("c"), Err(("verifications", 10)));
        }
        assert_eq!(verified.count("c", "https://example.net"), Ok(()));
        // Another credential has verifications of its own, until the receiver has its maximum.
        for number in MAX_OF_CREDENTIAL..MAX_OF_RECEIVER {
            assert_eq!(count(&format!("d{}", number / 10)), Ok(()));
        }
        assert_eq!(count("e"), Err(("receiver_verifications", 300)));
        tokio::time::advance(MINUTE).await;
        assert_eq!(count("c"), Ok(()));
        let key = || ("c".to_owned(), "https://example.com/a".to_owned());
        assert!(!verified.contains(&key()));
        verified.insert(key());
        assert!(verified.contains(&key()));
        tokio::time::advance(VERIFIED).await;
        assert!(!verified.contains(&key()));
    }
}
