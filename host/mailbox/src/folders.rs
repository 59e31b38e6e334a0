//! The folders of a mailbox: their entries in the message index, their ids and roles, and the
//! rights of members.

mod ids;
pub(crate) mod path;
pub(crate) mod rights;
pub(crate) mod roles;
pub(crate) mod states;
pub(crate) mod tree;

use std::borrow::Cow;
use std::sync::Arc;

use latchmail_core::account_permits::AccountPermits;
use quick_cache::sync::Cache;
use tokio::sync::OwnedSemaphorePermit;

use crate::access::Access;
use crate::cache::{FolderKey, LookupCounter, MAX_ACCOUNTS, MAX_FOLDERS};
use crate::context::Context;
use crate::error::Error;

/// The folders in the message index.
#[derive(Debug)]
pub struct Folders {
    context: Arc<Context>,
    /// One lock per account, which serializes the updates of the message index from the mail
    /// server.
    pub(crate) locks: AccountPermits,
    /// The cached ids of folders.
    ids: Cache<FolderKey, Arc<str>>,
    id_lookups: LookupCounter,
    /// The cached folder count of each account, or 0 if the folder count is unknown. If an account
    /// has an entry, the message index contains all folders of the account.
    pub(crate) counts: Cache<String, usize>,
}

impl Folders {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            locks: AccountPermits::new(1),
            ids: Cache::new(MAX_FOLDERS),
            id_lookups: LookupCounter::new("folder_ids"),
            counts: Cache::new(MAX_ACCOUNTS),
        }
    }

    /// Acquires the account's lock for updates of the message index from the mail server.
    pub(crate) async fn lock<'a>(
        &self,
        access: &'a Access,
    ) -> Result<(Cow<'a, Access>, Option<OwnedSemaphorePermit>), Error> {
        self.context.connections.lock(&self.locks, access).await
    }
}
