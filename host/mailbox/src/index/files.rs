//! The files of the search indexes: one folder for each account.

use std::cmp::Reverse;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

/// The maximum size of one index is the disk space for all indexes divided by this value.
pub(super) const ACCOUNT_DIVISOR: u64 = 4;

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

/// Creates the folder of an index, and sets the modification time of the folder to the current
/// time. The modification time records the last use of the index.
pub(super) fn prepare(folder: &Path) -> io::Result<()> {
    // The index contains the text of messages. Therefore only the service's user can read the
    // folder.
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
    /// The number of searches since the start of the service that ran on the mail server although
    /// the search index is enabled.
    pub(super) fallbacks: u64,
    /// The longest time since the last update of an open index, in seconds.
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
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) bytes: u64,
    pub(super) used: SystemTime,
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns the size of an index, in bytes.
pub(super) fn size(folder: &Path) -> u64 {
    let files = entries(folder);
    let sizes = files.iter().filter_map(|file| fs::metadata(file).ok());
    sizes.map(|file| file.len()).sum()
}

/// Returns all indexes on the disk.
pub(super) fn list(root: &Path) -> Vec<Stored> {
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

/// Returns the indexes to delete. One index can have only a share of `max_bytes`, so that one
/// mailbox cannot displace the indexes of all other mailboxes. If all indexes together have more
/// than `max_bytes`, returns unused indexes first, beginning with the longest time without use.
/// Then returns used indexes, beginning with the largest index.
pub(super) fn excess(
    stored: Vec<Stored>,
    is_used: impl Fn(&str) -> bool,
    max_bytes: u64,
) -> Vec<Stored> {
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
