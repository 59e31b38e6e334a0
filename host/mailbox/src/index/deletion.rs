//! Deletes search indexes: the indexes of deleted accounts, indexes that are too large and, if all
//! indexes together need too much disk space, the indexes that were not used for the longest time.

use latchmail_core::metrics;

use super::SearchIndex;
use super::files::{Stored, excess, list, remove};
use super::indexes::{IDLE, Indexes};
use super::update::delete_excess;
use crate::blocking;

impl SearchIndex {
    /// Deletes the indexes of accounts that do not exist, and indexes beyond the configured disk
    /// space.
    pub(super) async fn delete_indexes(&self, indexes: &Indexes) {
        let root = indexes.root.clone();
        let Ok(stored) = blocking::run(move || list(&root)).await else {
            return;
        };
        metrics::INDEX_BYTES.set([], stored.iter().map(|index| index.bytes).sum::<u64>());
        if stored.is_empty() {
            return;
        }
        let names: Vec<&str> = stored.iter().map(|index| index.name.as_str()).collect();
        let existing = match self.context.directory.accounts.existing(&names).await {
            Ok(existing) => existing,
            Err(error) => {
                tracing::warn!(%error, "failed to look up the accounts of the search indexes");
                return;
            }
        };
        let (stored, of_deleted_accounts): (Vec<_>, Vec<_>) = stored
            .into_iter()
            .partition(|index| existing.contains(&index.name));
        for index in &of_deleted_accounts {
            delete(index, "account deleted").await;
        }
        let used = |account: &str| {
            let index = indexes.open(account);
            index.filter(|index| index.used().elapsed() <= IDLE)
        };
        let is_used = |account: &str| used(account).is_some();
        for index in excess(stored, is_used, indexes.max_bytes) {
            match used(&index.name) {
                Some(account) => {
                    // Skip the index if an update is in progress, because the update also checks
                    // the size.
                    if let Ok(_lock) = account.update.try_lock() {
                        delete_excess(&account).await;
                    }
                }
                None => delete(&index, "disk space").await,
            }
        }
    }
}

async fn delete(index: &Stored, reason: &str) {
    let folder = index.folder.clone();
    match blocking::run(move || remove(&folder)).await {
        Ok(Ok(())) => {
            tracing::info!(
                index = index.name,
                bytes = index.bytes,
                reason,
                "search index deleted"
            );
        }
        Ok(Err(error)) => {
            tracing::warn!(index = index.name, %error, "failed to delete a search index");
        }
        Err(_) => {}
    }
}
