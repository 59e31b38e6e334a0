//! Message numbers: assigns message numbers, finds the locations of messages by message number, and
//! updates numbers and locations after changes by other clients.

pub(crate) mod locations;
mod lost_messages;
mod moved_messages;
mod own_changes;
pub(crate) mod reconcile;
mod sync;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use latchmail_core::account_permits::AccountPermits;
use quick_cache::sync::Cache;

use crate::cache::{FolderKey, MAX_ACCOUNTS, MAX_FOLDERS};
use crate::context::Context;
use crate::folders::Folders;

/// The service's message numbers, which the message index in the database contains.
#[derive(Debug)]
pub(crate) struct Numbers {
    context: Arc<Context>,
    folders: Arc<Folders>,
    /// One lock per account, which serializes the syncs of the mailbox.
    sync_locks: AccountPermits,
    /// The number of syncs that were requested or started so far.
    sync_ticket: AtomicU64,
    /// The ticket and the resulting version of the last sync of each account.
    syncs: Cache<String, (u64, u64)>,
    /// The number of messages and the UIDNEXT of each folder at the last check for lost messages.
    message_counts: Cache<FolderKey, (u32, u32)>,
}

impl Numbers {
    pub(crate) fn new(context: Arc<Context>, folders: Arc<Folders>) -> Self {
        Self {
            context,
            folders,
            sync_locks: AccountPermits::new(1),
            sync_ticket: AtomicU64::new(0),
            syncs: Cache::new(MAX_ACCOUNTS),
            message_counts: Cache::new(MAX_FOLDERS),
        }
    }
}
