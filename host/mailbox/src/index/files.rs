//! The files of the indexes: one folder for each account. Deletes the indexes of deleted accounts,
//! the indexes that are too large and, if the disk space is used up, the indexes that were not used
//! for the longest time.

use std::cmp::Reverse;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use latchmail_core::metrics;
use serde::Serialize;

use super::update::delete_excess;
use super::{ACCOUNT_DIVISOR, IDLE, Indexes};
use crate::blocking;
use crate::mail::Mail;

/// Name of the file with the state of the indexes, for `latchmail doctor`.
const STATUS: &str = "status.json";

/// Returns the folder of an account's index. The name is the account's id, which contains only
/// letters and digits. The folders are distributed to subfolders, because a folder with many
/// entries is slow on some file systems.
pub(super) fn account_folder(root: &Path, account: &str) -> PathBuf {
    root.join(account.get(..2).unwrap_or(account)).join(account)
}

/// Deletes the folder of an index.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates the folder of an index, and records its use in the time of its last modification.
pub(super) fn prepare(folder: &Path) -> io::Result<()> {
    // Only the service's user can read the text of messages.
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)?;
    fs::File::open(folder)?.set_modified(SystemTime::now())
}

/// The state of the indexes of a running host, for `latchmail doctor`.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    /// The time of the last update of this file, in seconds since 1970.
    pub(super) time: i64,
    /// The number of open indexes.
    pub(super) open: usize,
    /// The number of indexes that wait for their build or are being built.
    pub(super) building: usize,
    /// The number of searches since the start that the mail server served although the index is
    /// enabled.
    pub(super) fallbacks: u64,
    /// The largest time since the last update of an open index, in seconds.
    pub(super) lag: u64,
}

/// Writes the state of the indexes.
pub(super) fn write_status(root: &Path, status: &Status) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(root)?;
    let new = root.join(format!("{STATUS}.new"));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(&new)?
        .write_all(&serde_json::to_vec(status)?)?;
    fs::rename(new, root.join(STATUS))
}

/// An index on the disk.
#[derive(Debug)]
struct Stored {
    name: String,
    folder: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns the size of an index.
pub(super) fn size(folder: &Path) -> u64 {
    let files = entries(folder);
    let sizes = files.iter().filter_map(|file| fs::metadata(file).ok());
    sizes.map(|file| file.len()).sum()
}

/// Returns all indexes on the disk.
fn list(root: &Path) -> Vec<Stored> {
    let mut stored = Vec::new();
    for group in entries(root) {
        for folder in entries(&group) {
            let used = fs::metadata(&folder).and_then(|folder| folder.modified());
            stored.push(Stored {
                name: folder
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default(),
                bytes: size(&folder),
                used: used.unwrap_or(SystemTime::UNIX_EPOCH),
                folder,
            });
        }
    }
    stored
}

/// Returns the indexes to delete, so that each has at most a share of `max_bytes` and all together
/// have at most `max_bytes`: the unused ones first, beginning with the longest time without use,
/// and then the used ones, beginning with the largest. Otherwise one mailbox could displace the
/// indexes of all others.
fn excess(stored: Vec<Stored>, is_used: impl Fn(&str) -> bool, max_bytes: u64) -> Vec<Stored> {
    let share = max_bytes / ACCOUNT_DIVISOR;
    let (mut excess, others): (Vec<_>, Vec<_>) =
        stored.into_iter().partition(|index| index.bytes > share);
    let (mut used, mut unused): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|index| is_used(&index.name));
    unused.sort_by_key(|index| index.used);
    used.sort_by_key(|index| Reverse(index.bytes));
    let candidates: Vec<Stored> = unused.into_iter().chain(used).collect();
    let mut total: u64 = candidates.iter().map(|index| index.bytes).sum();
    for index in candidates {
        if total <= max_bytes {
            break;
        }
        total -= index.bytes;
        excess.push(index);
    }
    excess
}

impl Mail {
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
        let existing = match self.directory.accounts.existing(&names).await {
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
                    // A longer update also checks the size.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns the names of the indexes to delete. The names of used indexes are in upper case.
    /// Each index was used after the one before it.
    fn deleted(sizes: &[(&str, u64)], max_bytes: u64) -> Vec<String> {
        let stored = sizes
            .iter()
            .enumerate()
            .map(|(position, (name, bytes))| Stored {
                name: (*name).into(),
                folder: PathBuf::new(),
                bytes: *bytes,
                used: SystemTime::UNIX_EPOCH + Duration::from_secs(position as u64),
            });
        let is_used = |name: &str| name.to_uppercase() == name;
        let excess = excess(stored.collect(), is_used, max_bytes);
        excess.into_iter().map(|index| index.name).collect()
    }

    #[test]
    fn one_index_cannot_displace_the_others() {
        let small = [("a", 10), ("b", 10), ("C", 10)];
        assert_eq!(deleted(&small, 40), [""; 0]);
        // An index of more than a quarter is deleted, even if it is in use.
        let with_large = [("a", 10), ("b", 10), ("C", 10), ("LARGE", 5_000)];
        assert_eq!(deleted(&with_large, 100), ["LARGE"]);
    }

    #[test]
    fn unused_indexes_are_deleted_before_used_ones() {
        let sizes = [("A", 20), ("b", 20), ("C", 25), ("d", 25), ("E", 24)];
        assert_eq!(deleted(&sizes, 100), ["b"]);
        let sizes = [("A", 20), ("B", 24), ("C", 25), ("D", 22), ("E", 24)];
        assert_eq!(deleted(&sizes, 100), ["C"]);
    }
}
