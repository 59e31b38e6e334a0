//! One account's share: however much an account asks at once, the sandboxes are there for the others too. What is over its share waits
//! its turn before it takes a place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Calls of one account at a time, in all modules together. As many as it may have connections to the mail server by default: more
/// would only wait there.
const SHARE: usize = 8;

/// Entries that are kept before those of nobody are looked for.
const KEPT: usize = 1024;

/// Who waits for whom.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Arc<Semaphore>>>);

impl Turns {
    /// Waits until `account` has fewer calls at work than its share, and holds one for as long as the answer is kept.
    pub(crate) async fn turn(&self, account: &str) -> Option<OwnedSemaphorePermit> {
        let share = {
            let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if shares.len() >= KEPT {
                shares.retain(|_, share| Arc::strong_count(share) > 1);
            }
            let share = shares
                .entry(account.to_owned())
                .or_insert_with(|| Arc::new(Semaphore::new(SHARE)));
            Arc::clone(share)
        };
        // Never closed, so there is always a turn to come.
        share.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn an_account_over_its_share_waits_for_itself_and_for_nobody_else() {
        let turns = Turns::default();
        let mut held = Vec::new();
        for _ in 0..SHARE {
            held.push(turns.turn("ada").await.unwrap());
        }
        let moment = Duration::from_millis(20);
        assert!(timeout(moment, turns.turn("ada")).await.is_err());
        assert!(timeout(moment, turns.turn("bob")).await.is_ok());
        held.pop();
        assert!(timeout(moment, turns.turn("ada")).await.is_ok());
    }

    #[tokio::test]
    async fn accounts_that_ask_no_more_are_forgotten() {
        let turns = Turns::default();
        let kept = turns.turn("ada").await;
        for number in 0..3 * KEPT {
            turns.turn(&number.to_string()).await;
        }
        let shares = turns.0.lock().unwrap();
        assert!(shares.len() <= KEPT && shares.contains_key("ada"));
        drop(kept);
    }
}
