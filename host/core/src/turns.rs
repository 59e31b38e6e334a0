//! Limits the concurrent calls of each account, so that one account cannot use up a shared resource. Calls beyond the limit wait for a permit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// From this number of accounts in the map, accounts without permits are removed.
const KEPT: usize = 1024;

/// The permits of all accounts.
#[derive(Debug)]
pub struct Turns {
    share: usize,
    accounts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Turns {
    /// Creates a limit of `share` concurrent calls for each account.
    #[must_use]
    pub fn new(share: usize) -> Self {
        Self {
            share,
            accounts: Mutex::default(),
        }
    }

    /// Waits until `account` has fewer concurrent calls than the limit. Returns a permit, which counts until it is dropped.
    pub async fn turn(&self, account: &str) -> Option<OwnedSemaphorePermit> {
        self.turns(account, 1).await
    }

    /// Waits for `many` permits of the account at once.
    pub async fn turns(&self, account: &str, many: u32) -> Option<OwnedSemaphorePermit> {
        let share = {
            let mut shares = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
            if shares.len() >= KEPT {
                shares.retain(|_, share| Arc::strong_count(share) > 1);
            }
            let share = shares
                .entry(account.to_owned())
                .or_insert_with(|| Arc::new(Semaphore::new(self.share)));
            Arc::clone(share)
        };
        // The semaphore is never closed, so this always returns a permit.
        share.acquire_many_owned(many).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SHARE: usize = 3;

    #[tokio::test]
    async fn an_account_over_its_share_waits_for_itself_and_for_nobody_else() {
        let turns = Turns::new(SHARE);
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
        let turns = Turns::new(SHARE);
        let kept = turns.turn("ada").await;
        for number in 0..3 * KEPT {
            turns.turn(&number.to_string()).await;
        }
        let shares = turns.accounts.lock().unwrap();
        assert!(shares.len() <= KEPT && shares.contains_key("ada"));
        drop(kept);
    }
}
