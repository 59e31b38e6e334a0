//! Checks the folder of the search index: its permissions, its size and the free space. Does not
//! open the indexes.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use latchmail_core::clock::Timestamp;
use latchmail_core::config::Config;
use rustix::fs::{Access, statvfs};
use serde::Deserialize;

use super::files::first_existing;
use super::finding::Finding;
use super::user::ServiceUser;

const INDEX: &str = "index";

/// The mode bits that allow the group and other users any access.
const OPEN_TO_OTHERS: u32 = 0o077;

const MIB: u64 = 1024 * 1024;

/// The indexes on the disk.
#[derive(Debug, Default, PartialEq, Eq)]
struct Usage {
    /// The number of accounts with an index.
    accounts: u64,
    bytes: u64,
    /// The account with the largest index, and the size of this index in bytes.
    largest: Option<(String, u64)>,
}

/// Checks the search index. A problem is a warning, because the mail server searches if there is no
/// index.
pub(super) fn check(config: &Config, user: &ServiceUser) -> Finding {
    let index = &config.index;
    if !index.enabled {
        return Finding::warning(
            INDEX,
            "`index.enabled` is false, so the mail server searches",
            "set `index.enabled = true` if searches are too slow",
        );
    }
    let folder = &index.path;
    let shown = folder.display();
    let metadata = match folder.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return check_missing(folder, user),
        Err(error) => return unusable(folder, &error),
    };
    if metadata.uid() != user.id {
        return Finding::warning(
            INDEX,
            format!("the folder {shown} does not belong to the user {}", user.id),
            format!("run `chown -R {} {shown}`", user.id),
        );
    }
    if metadata.mode() & OPEN_TO_OTHERS != 0 {
        return Finding::warning(
            INDEX,
            format!("other users can access the text of messages in {shown}"),
            format!("run `chmod 700 {shown}`"),
        );
    }
    let measured = usage(folder).and_then(|usage| Ok((usage, free_space(folder)?)));
    match measured {
        Ok((usage, free)) => {
            let mut finding = assess(folder, &usage, free, index.max_bytes);
            finding.detail.push_str(&status(folder));
            finding
        }
        Err(error) => unusable(folder, &error),
    }
}

/// The state of the indexes that the running service writes every 30 seconds.
#[derive(Debug, Deserialize)]
struct Status {
    /// In seconds since 1970.
    time: i64,
    open: u64,
    building: u64,
    fallbacks: u64,
    /// In seconds.
    lag: u64,
}

/// Describes the state of the indexes that the running service has written to `status.json`.
/// Returns an empty text if this file is missing or invalid.
fn status(folder: &Path) -> String {
    let read = std::fs::read(folder.join("status.json"));
    let status = read
        .ok()
        .and_then(|json| serde_json::from_slice(&json).ok());
    let Some(Status {
        time,
        open,
        building,
        fallbacks,
        lag,
    }) = status
    else {
        return String::new();
    };
    let time = Timestamp::from_millis(time.saturating_mul(1000)).sql();
    format!(
        "; state at {time} UTC: open: {open}, being built: {building}, lag: {lag} s, searches by the mail server: {fallbacks}"
    )
}

fn unusable(folder: &Path, error: &io::Error) -> Finding {
    Finding::warning(
        INDEX,
        format!("the folder {} cannot be read: {error}", folder.display()),
        "run the command as the service's user or as root, or correct `index.path`",
    )
}

/// Checks that the service can create the folder.
fn check_missing(folder: &Path, user: &ServiceUser) -> Finding {
    let parent = first_existing(folder);
    let is_writable = parent.as_ref().is_some_and(|parent| {
        let access = user.has_access(parent, Access::WRITE_OK | Access::EXEC_OK);
        access.unwrap_or(false)
    });
    let folder = folder.display();
    if is_writable {
        return Finding::ok(
            INDEX,
            format!("{folder} does not exist yet; the service creates it"),
        );
    }
    Finding::warning(
        INDEX,
        format!("the user {} cannot create the folder {folder}", user.id),
        format!("run `install -d -o {} -m 700 {folder}`", user.id),
    )
}

/// Measures the indexes. The index of an account is in a folder two levels below `root`.
fn usage(root: &Path) -> io::Result<Usage> {
    let mut usage = Usage::default();
    for (group, _) in entries(root)? {
        for (folder, _) in entries(&group)? {
            let files = entries(&folder)?;
            let bytes = files.iter().map(|(_, metadata)| metadata.len()).sum();
            usage.accounts += 1;
            usage.bytes += bytes;
            let is_largest = |(_, largest): &(String, u64)| bytes > *largest;
            if usage.largest.as_ref().is_none_or(is_largest) {
                let account = folder.file_name().unwrap_or_default();
                usage.largest = Some((account.to_string_lossy().into_owned(), bytes));
            }
        }
    }
    Ok(usage)
}

/// Returns the entries of a folder. The running service can delete files at any time, so a missing
/// file or folder is no error. Returns no entries for a file.
fn entries(folder: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let is_gone =
        |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    let found = match folder.read_dir() {
        Ok(found) => found,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut entries = Vec::new();
    for entry in found {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) => entries.push((entry.path(), metadata)),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(entries)
}

/// Returns the number of bytes that the service can still write to the file system of a folder.
fn free_space(folder: &Path) -> io::Result<u64> {
    let file_system = statvfs(folder)?;
    Ok(file_system.f_bavail.saturating_mul(file_system.f_frsize))
}

fn assess(folder: &Path, usage: &Usage, free: u64, max_bytes: u64) -> Finding {
    let largest = match &usage.largest {
        Some((account, bytes)) => format!(", largest: {} MiB ({account})", bytes / MIB),
        None => String::new(),
    };
    let detail = format!(
        "{}: accounts: {}, size: {} MiB, maximum: {} MiB{largest}, free space: {} MiB",
        folder.display(),
        usage.accounts,
        usage.bytes / MIB,
        max_bytes / MIB,
        free / MIB,
    );
    if free < max_bytes.saturating_sub(usage.bytes) {
        let most = usage.bytes.saturating_add(free) / 2;
        return Finding::warning(
            INDEX,
            format!("{detail}. The disk is full before the maximum is reached"),
            format!(
                "set `index.max_bytes` to {most} or less, or move `index.path` to a larger disk"
            ),
        );
    }
    Finding::ok(INDEX, detail)
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir, create_dir_all, remove_dir_all, write};

    use super::super::finding::Status;
    use super::*;

    #[test]
    fn the_indexes_and_their_files_are_counted() {
        let root = std::env::temp_dir().join(format!("lm-index-{}", std::process::id()));
        create_dir(&root).unwrap();
        assert_eq!(usage(&root).unwrap(), Usage::default());
        for folder in ["ad/ada", "ad/adam", "bo/bob"] {
            create_dir_all(root.join(folder)).unwrap();
        }
        for (name, length) in [
            ("ad/ada/1", 300),
            ("ad/ada/2", 1),
            ("bo/bob/1", 100),
            ("lock", 50),
        ] {
            write(root.join(name), vec![b'x'; length]).unwrap();
        }
        let expected = Usage {
            accounts: 3,
            bytes: 401,
            largest: Some(("ada".into(), 301)),
        };
        assert_eq!(usage(&root).unwrap(), expected);
        assert!(free_space(&root).unwrap() > 0);
        remove_dir_all(&root).unwrap();
    }

    #[test]
    fn the_state_of_the_running_service_is_described() {
        let root = std::env::temp_dir().join(format!("lm-index-status-{}", std::process::id()));
        create_dir(&root).unwrap();
        assert_eq!(status(&root), "");
        let json = r#"{"time":1800000000,"open":2,"building":1,"fallbacks":7,"lag":31}"#;
        write(root.join("status.json"), json).unwrap();
        assert_eq!(
            status(&root),
            "; state at 2027-01-15 08:00:00 UTC: open: 2, being built: 1, lag: 31 s, searches by the mail server: 7"
        );
        remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_disk_that_is_smaller_than_the_maximum_is_a_warning() {
        let usage = Usage {
            accounts: 1,
            bytes: 4 * MIB,
            largest: Some(("ada".into(), 4 * MIB)),
        };
        let assess = |free| assess(Path::new("/i"), &usage, free, 10 * MIB);
        let enough = assess(6 * MIB);
        assert_eq!(enough.status, Status::Ok);
        assert_eq!(
            enough.detail,
            "/i: accounts: 1, size: 4 MiB, maximum: 10 MiB, largest: 4 MiB (ada), free space: 6 MiB"
        );
        assert_eq!(assess(6 * MIB - 1).status, Status::Warning);
    }
}
