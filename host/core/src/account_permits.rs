//! Limits the number of concurrent calls of each account, so that one account cannot use up a
//! shared resource. Calls beyond the limit wait for a permit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// If the map has this number of accounts, all accounts that use no permit are removed from the
/// map.
const MAX_ACCOUNTS: usize = 1024;

/// The permits of all accounts.
#[derive(Debug)]
pub struct AccountPermits {
    per_account: usize,
    accounts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl AccountPermits {
    /// Creates a limit of `per_account` concurrent calls for each account.
    #[must_use]
    pub fn new(per_account: usize) -> Self {
        Self {
            per_account,
            accounts: Mutex::default(),
        }
    }

    /// Waits until `account` has fewer concurrent calls than the limit. The returned permit counts
    /// as one call until the permit is dropped.
    pub async fn acquire(&self, account: &str) -> Option<OwnedSemaphorePermit> {
        self.acquire_many(account, 1).await
    }

    /// Waits until `many` permits of the account are free. Returns one value that contains all of
    /// these permits.
    pub async fn acquire_many(&self, account: &str, many: u32) -> Option<OwnedSemaphorePermit> {
        let semaphore = {
            let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
            if accounts.len() >= MAX_ACCOUNTS {
                accounts.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
            }
            let semaphore = accounts
                .entry(account.to_owned())
                .or_insert_with(|| Arc::new(Semaphore::new(self.per_account)));
            Arc::clone(semaphore)
        };
        // The semaphore is never closed, so the result is never `None`.
        semaphore.acquire_many_owned(many).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const LIMIT: usize = 3;

    #[tokio::test]
    async fn an_account_over_its_share_waits_for_itself_and_for_nobody_else() {
        let permits = AccountPermits::new(LIMIT);
        let mut in_use = Vec::new();
        for _ in 0..LIMIT {
            in_use.push(permits.acquire("ada").await.unwrap());
        }
        let moment = Duration::from_millis(20);
        assert!(timeout(moment, permits.acquire("ada")).await.is_err());
        assert!(timeout(moment, permits.acquire("bob")).await.is_ok());
        in_use.pop();
        assert!(timeout(moment, permits.acquire("ada")).await.is_ok());
    }

    #[tokio::test]
    async fn accounts_that_ask_no_more_are_forgotten() {
        let permits = AccountPermits::new(LIMIT);
        let in_use = permits.acquire("ada").await;
        for number in 0..3 * MAX_ACCOUNTS {
            permits.acquire(&number.to_string()).await;
        }
        let accounts = permits.accounts.lock().unwrap();
        assert!(accounts.len() <= MAX_ACCOUNTS && accounts.contains_key("ada"));
        drop(in_use);
    }
}
