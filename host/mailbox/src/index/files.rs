//! The files of the indexes: one folder for each account. Deletes the indexes of deleted accounts and, if the disk space is used up, of the accounts that were not
//! used for the longest time.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use latchmail_core::metrics;
use serde::Serialize;

use super::Indexes;
use crate::blocking;
use crate::mail::Mail;

/// Name of the file with the state of the indexes, for `latchmail doctor`.
const STATUS: &str = "status.json";

/// Returns the folder of an account's index. The name is the account's id, which contains only letters and digits. The folders are distributed to subfolders,
/// because a folder with many entries is slow on some file systems.
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
    /// The number of searches since the start that the mail server served although the index is enabled.
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

/// Returns all indexes on the disk.
fn list(root: &Path) -> Vec<Stored> {
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut stored = Vec::new();
    for group in entries(root) {
        for folder in entries(&group) {
            let files = entries(&folder);
            let sizes = files.iter().filter_map(|file| fs::metadata(file).ok());
            let used = fs::metadata(&folder).and_then(|folder| folder.modified());
            stored.push(Stored {
                name: folder
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default(),
                bytes: sizes.map(|file| file.len()).sum(),
                used: used.unwrap_or(SystemTime::UNIX_EPOCH),
                folder,
            });
        }
    }
    stored
}

impl Mail {
    /// Deletes the indexes of accounts that do not exist, and indexes beyond the configured disk space.
    pub(super) async fn delete_indexes(&self, indexes: &Indexes) {
        let root = indexes.root.clone();
        let Ok(stored) = blocking::run(move || list(&root)).await else {
            return;
        };
        let mut total: u64 = stored.iter().map(|index| index.bytes).sum();
        metrics::INDEX_BYTES.set([], total);
        if stored.is_empty() {
            return;
        }
        let names: Vec<&str> = stored.iter().map(|index| index.name.as_str()).collect();
        let existing = match self.directory.existing_accounts(&names).await {
            Ok(existing) => existing,
            Err(error) => {
                tracing::warn!(%error, "failed to look up the accounts of the search indexes");
                return;
            }
        };
        let open: HashSet<String> = indexes.lock().keys().cloned().collect();
        let mut sorted = stored;
        sorted.sort_by_key(|index| index.used);
        for index in sorted {
            let is_deleted = !existing.contains(&index.name);
            let is_excess = total > indexes.max_bytes && !open.contains(&index.name);
            if !(is_deleted || is_excess) {
                continue;
            }
            total -= index.bytes;
            let folder = index.folder.clone();
            match blocking::run(move || remove(&folder)).await {
                Ok(Ok(())) => {
                    tracing::info!(
                        index = index.name,
                        bytes = index.bytes,
                        reason = if is_deleted {
                            "account deleted"
                        } else {
                            "disk space"
                        },
                        "search index deleted"
                    );
                }
                Ok(Err(error)) => {
                    tracing::warn!(index = index.name, %error, "failed to delete a search index");
                }
                Err(_) => {}
            }
        }
    }
}
