//! Limits the memory of messages during sending. One limit applies to all accounts together, and
//! another limit applies to each account.
//!
//! Messages of up to 1 MiB have a separate pool. Therefore these messages do not wait for larger
//! messages. This module only counts memory and does not allocate memory.

use std::sync::Arc;

use latchmail_core::account_permits::AccountPermits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum size of a message that uses the pool of small messages, in bytes.
const MAX_SMALL: usize = 1024 * 1024;
/// The sizes of the pools for large and for small messages, in KiB.
const LARGE_POOL_KIB: usize = 256 * 1024;
const SMALL_POOL_KIB: usize = 32 * 1024;
/// The maximum memory of one account in a pool is the size of the pool divided by this value. The
/// largest message needs 75 MiB of the pool for large messages.
const ACCOUNT_DIVISOR: usize = 3;
/// Factor between the size of a message and the memory for sending the message. The memory contains
/// the files, the finished message, and a copy with dot stuffing (RFC 5321, section 4.5.2).
const MEMORY_FACTOR: usize = 3;
/// Additional memory of a message, in KiB.
const OVERHEAD_KIB: usize = 16;

/// The pools of memory for messages.
#[derive(Debug)]
pub(crate) struct MessageMemory {
    small: Pool,
    large: Pool,
}

/// A pool of memory. Each permit represents 1 KiB.
#[derive(Debug)]
struct Pool {
    permits: Arc<Semaphore>,
    account_limit: usize,
    account_permits: AccountPermits,
}

/// The permits of one message. The permits return to the pool when the value is dropped.
#[derive(Debug)]
pub(crate) struct MemoryPermit {
    _account: OwnedSemaphorePermit,
    _pool: OwnedSemaphorePermit,
}

impl MessageMemory {
    pub(crate) fn new() -> Self {
        Self {
            small: Pool::new(SMALL_POOL_KIB),
            large: Pool::new(LARGE_POOL_KIB),
        }
    }

    /// Waits until the memory for a message of `bytes` bytes is available.
    pub(crate) async fn acquire(&self, account: &str, bytes: usize) -> Option<MemoryPermit> {
        let pool = if bytes <= MAX_SMALL {
            &self.small
        } else {
            &self.large
        };
        let kibibytes =
            (OVERHEAD_KIB + MEMORY_FACTOR * bytes.div_ceil(1024)).min(pool.account_limit);
        let permits = u32::try_from(kibibytes).ok()?;
        // Take the account's permits first. Otherwise an account that waits for its own limit would
        // block the shared pool.
        let of_account = pool.account_permits.acquire_many(account, permits).await?;
        let of_pool = Arc::clone(&pool.permits).acquire_many_owned(permits).await;
        Some(MemoryPermit {
            _account: of_account,
            _pool: of_pool.ok()?,
        })
    }
}

impl Pool {
    fn new(size: usize) -> Self {
        let account_limit = size / ACCOUNT_DIVISOR;
        Self {
            permits: Arc::new(Semaphore::new(size)),
            account_limit,
            account_permits: AccountPermits::new(account_limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const LARGEST: usize = 25 * 1024 * 1024;

    fn acquire(memory: &MessageMemory, account: &str, bytes: usize) -> Option<MemoryPermit> {
        memory.acquire(account, bytes).now_or_never().flatten()
    }

    #[test]
    fn an_account_with_large_messages_leaves_memory_for_other_accounts() {
        let memory = MessageMemory::new();
        let held = acquire(&memory, "ada", LARGEST).unwrap();
        assert!(acquire(&memory, "ada", LARGEST).is_none());
        assert!(acquire(&memory, "ada", MAX_SMALL).is_some());
        let others = ["bob", "eve"].map(|account| acquire(&memory, account, LARGEST));
        assert!(others.iter().all(Option::is_some));
        drop(held);
        assert!(acquire(&memory, "ada", LARGEST).is_some());
    }

    #[test]
    fn small_messages_do_not_wait_for_large_ones() {
        let memory = MessageMemory::new();
        let accounts = ["ada", "bob", "eve"];
        let held = accounts.map(|account| acquire(&memory, account, LARGEST).unwrap());
        let mut waiting = Box::pin(memory.acquire("mallory", LARGEST));
        assert!(waiting.as_mut().now_or_never().is_none());
        for account in ["ada", "mallory", "grace"] {
            assert!(acquire(&memory, account, MAX_SMALL).is_some());
        }
        drop(held);
        assert!(waiting.now_or_never().flatten().is_some());
    }
}
