//! One account's share of what all have: however much an account asks at once, there is something left for the others. What is over its
//! share waits its turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Entries that are kept before those of nobody are looked for.
const KEPT: usize = 1024;

/// Who waits for whom.
#[derive(Debug)]
pub(crate) struct Turns {
    share: usize,
    accounts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Turns {
    /// Every account may do so much at a time.
    pub(crate) fn new(share: usize) -> Self {
        Self {
            share,
            accounts: Mutex::default(),
        }
    }

    /// Waits until `account` has fewer calls at work than its share, and holds one for as long as the answer is kept.
    pub(crate) async fn turn(&self, account: &str) -> Option<OwnedSemaphorePermit> {
        self.turns(account, 1).await
    }

    /// Waits for `many` permits of the share at once.
    pub(crate) async fn turns(&self, account: &str, many: u32) -> Option<OwnedSemaphorePermit> {
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
        // Never closed, so there is always a turn to come.
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
