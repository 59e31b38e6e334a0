//! Remembers, in the memory of this host, which receivers were verified.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time for which a verified receiver needs no further verification.
const VERIFIED: Duration = Duration::from_hours(24);
/// Maximum number of verifications of one receiver per minute, on this host.
pub(crate) const MAX_VERIFICATIONS: u32 = 10;
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
    /// The start of the current minute and the number of verifications, by receiver.
    counts: HashMap<String, (Instant, u32)>,
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

    /// Counts a verification. Returns `false` if the receiver was verified too often.
    pub(crate) fn count(&self, receiver: &str) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.counts.len() >= CAPACITY {
            state
                .counts
                .retain(|_, (start, _)| start.elapsed() < MINUTE);
        }
        if state.counts.len() >= CAPACITY {
            return false;
        }
        let entry = state.counts.entry(receiver.to_owned());
        let (start, count) = entry.or_insert((Instant::now(), 0));
        if start.elapsed() >= MINUTE {
            (*start, *count) = (Instant::now(), 0);
        }
        *count += 1;
        *count <= MAX_VERIFICATIONS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_number_of_verifications_of_a_receiver_is_limited() {
        let verified = Verified::default();
        for _ in 0..MAX_VERIFICATIONS {
            assert!(verified.count("https://example.com"));
        }
        assert!(!verified.count("https://example.com"));
        assert!(verified.count("https://example.net"));
        tokio::time::advance(MINUTE).await;
        assert!(verified.count("https://example.com"));
        let key = || ("c".to_owned(), "https://example.com/a".to_owned());
        assert!(!verified.contains(&key()));
        verified.insert(key());
        assert!(verified.contains(&key()));
        tokio::time::advance(VERIFIED).await;
        assert!(!verified.contains(&key()));
    }
}
