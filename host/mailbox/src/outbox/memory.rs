//! Limits the memory of messages that are being sent, for all accounts together and for each account.
//!
//! Messages of up to 1 MiB have a separate pool, so that they do not wait for larger ones. This module only counts memory. It does not allocate any.

use std::sync::Arc;

use latchmail_core::account_permits::AccountPermits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum size of a message in the pool of small messages, in bytes.
const SMALL: usize = 1024 * 1024;
/// The sizes of the pools for large and for small messages, in KiB.
const LARGE_POOL: usize = 256 * 1024;
const SMALL_POOL: usize = 32 * 1024;
/// One account can use one part in `ACCOUNT_PART` of a pool. The largest message needs 75 MiB.
const ACCOUNT_PART: usize = 3;
/// Memory factor of a message: its files, the finished message, and a copy with doubled dots.
const TIMES: usize = 3;
/// Additional memory of a message, in KiB.
const FIXED: usize = 16;

/// The pools of memory for messages.
#[derive(Debug)]
pub(super) struct Memory {
    small: Pool,
    large: Pool,
}

/// A pool. Each permit is 1 KiB.
#[derive(Debug)]
struct Pool {
    all: Arc<Semaphore>,
    share: usize,
    accounts: AccountPermits,
}

/// The permits of one message. They are returned when the value is dropped.
#[derive(Debug)]
pub(super) struct Share {
    _of_account: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            small: Pool::new(SMALL_POOL),
            large: Pool::new(LARGE_POOL),
        }
    }

    /// Waits for the memory of a message of `bytes` bytes.
    pub(super) async fn share(&self, account: &str, bytes: usize) -> Option<Share> {
        let pool = if bytes <= SMALL {
            &self.small
        } else {
            &self.large
        };
        let kibibytes = (FIXED + TIMES * bytes.div_ceil(1024)).min(pool.share);
        let many = u32::try_from(kibibytes).ok()?;
        // Take the account's permits first, so that an account that waits for its own limit does not block the shared pool.
        let of_account = pool.accounts.acquire_many(account, many).await?;
        let of_all = Arc::clone(&pool.all).acquire_many_owned(many).await.ok()?;
        Some(Share {
            _of_account: of_account,
            _of_all: of_all,
        })
    }
}

impl Pool {
    fn new(size: usize) -> Self {
        let share = size / ACCOUNT_PART;
        Self {
            all: Arc::new(Semaphore::new(size)),
            share,
            accounts: AccountPermits::new(share),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const LARGEST: usize = 25 * 1024 * 1024;

    fn taken(memory: &Memory, account: &str, bytes: usize) -> Option<Share> {
        memory.share(account, bytes).now_or_never().flatten()
    }

    #[test]
    fn an_account_with_large_messages_leaves_memory_to_others() {
        let memory = Memory::new();
        let held = taken(&memory, "ada", LARGEST).unwrap();
        assert!(taken(&memory, "ada", LARGEST).is_none());
        assert!(taken(&memory, "ada", SMALL).is_some());
        let others = ["bob", "eve"].map(|account| taken(&memory, account, LARGEST));
        assert!(others.iter().all(Option::is_some));
        drop(held);
        assert!(taken(&memory, "ada", LARGEST).is_some());
    }

    #[test]
    fn small_messages_do_not_wait_for_large_ones() {
        let memory = Memory::new();
        let accounts = ["ada", "bob", "eve"];
        let held = accounts.map(|account| taken(&memory, account, LARGEST).unwrap());
        let mut waiting = Box::pin(memory.share("mallory", LARGEST));
        assert!(waiting.as_mut().now_or_never().is_none());
        for account in ["ada", "mallory", "grace"] {
            assert!(taken(&memory, account, SMALL).is_some());
        }
        drop(held);
        assert!(waiting.now_or_never().flatten().is_some());
    }
}
