//! Starts, finds and deletes exports.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::config;
use latchmail_core::error::Failure;
use latchmail_core::secrets;
use latchmail_core::traces::Tracer;
use latchmail_directory::Directory;
use latchmail_directory::exports as directory;
use latchmail_jobs::{Jobs, NewJob};
use latchmail_mailbox::Mail;
use latchmail_mailbox::filters::Filters;
use latchmail_mailbox::journal::Journal;
use latchmail_mailbox::outbox::SenderAccess;
use tokio_util::sync::CancellationToken;

use crate::work;

/// The time for which an archive is kept.
pub(crate) const RETENTION: Duration = Duration::from_hours(7 * 24);
/// The kind of the jobs.
pub(crate) const KIND: &str = "export";
/// The folder of the archives of deleted accounts.
const KEPT: &str = "kept";
/// The length of an id, in characters ([`secrets::id`]).
const ID_LENGTH: usize = 24;
/// The ending of the name of an archive.
const ENDING: &str = "zip";

/// The state of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The export has not begun.
    Pending,
    /// The archive is being written.
    Running,
    /// The archive can be downloaded.
    Ready,
    /// The export failed.
    Failed,
}

impl Status {
    fn named(name: &str) -> Self {
        match name {
            "pending" => Self::Pending,
            "running" => Self::Running,
            "ready" => Self::Ready,
            _ => Self::Failed,
        }
    }

    /// Returns the name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }
}

/// An export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The opaque id.
    pub id: String,
    /// The state.
    pub status: Status,
    /// The time at which the export was requested.
    pub created_at: Timestamp,
    /// The time at which the export and its archive are deleted.
    pub expires_at: Timestamp,
    /// The number of messages that are in the archive so far.
    pub messages: u64,
    /// The size of the archive in bytes. `None` if the archive is not ready.
    pub size: Option<u64>,
    /// The reason of a failure, for the account.
    pub error: Option<String>,
}

impl From<directory::Export> for Export {
    fn from(stored: directory::Export) -> Self {
        Self {
            status: Status::named(&stored.state),
            created_at: stored.created_at(),
            expires_at: stored.expires_at(),
            messages: stored.messages(),
            size: stored.size(),
            id: stored.id,
            error: stored.error,
        }
    }
}

/// The result of [`Exports::start`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// The export was requested.
    Begun(Export),
    /// The account has an export that has not ended. Nothing was changed.
    InProgress(Export),
}

/// A complete archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// The path of the file.
    pub path: PathBuf,
    /// The size in bytes.
    pub size: u64,
}

/// The parts of the service that exports use.
#[derive(Debug)]
pub struct Parts {
    /// The database.
    pub directory: Directory,
    /// The jobs.
    pub jobs: Arc<Jobs>,
    /// The mailboxes.
    pub mail: Arc<Mail>,
    /// The vacation responses and rules.
    pub filters: Arc<Filters>,
    /// The changes that grants made.
    pub journal: Arc<Journal>,
    /// Finds the current access of accounts to their mailboxes and scripts.
    pub rights: Arc<dyn SenderAccess>,
    /// Finds the access to the mailboxes of accounts that are being deleted.
    pub last_rights: Arc<dyn SenderAccess>,
    /// Begins the traces of jobs.
    pub tracer: Tracer,
}

/// The exports of all accounts.
#[derive(Debug)]
pub struct Exports {
    pub(crate) parts: Parts,
    pub(crate) root: PathBuf,
    pub(crate) max_bytes: u64,
    /// Ends the running step when the service stops.
    pub(crate) stopping: CancellationToken,
}

impl Exports {
    /// Creates the service. Creates no files.
    #[must_use]
    pub fn new(config: &config::Export, parts: Parts) -> Self {
        Self {
            parts,
            root: config.path.clone(),
            max_bytes: config.max_bytes,
            stopping: CancellationToken::new(),
        }
    }

    /// Ends the running step, so that the runner of the jobs stops at once. The export continues
    /// after the next start.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Requests an export of an account. Deletes the ended export of the account.
    ///
    /// # Errors
    /// Returns 500 if the database fails.
    pub async fn start(&self, account: &str, origin: &Origin) -> Result<Started, Failure> {
        self.start_export(account, false, origin).await
    }

    async fn start_export(
        &self,
        account: &str,
        is_last: bool,
        origin: &Origin,
    ) -> Result<Started, Failure> {
        let (id, now) = (secrets::id()?, self.parts.jobs.now().await?);
        let expires_at = now.plus(RETENTION);
        let exports = &self.parts.directory.exports;
        let new = directory::NewExport {
            id: &id,
            account,
            expires_at,
            is_last,
        };
        let started = match exports.begin(new, now, origin).await? {
            Some(unfinished) => Started::InProgress(unfinished.into()),
            None => Started::Begun(Export {
                id,
                status: Status::Pending,
                created_at: now,
                expires_at,
                messages: 0,
                size: None,
                error: None,
            }),
        };
        let (Started::Begun(export) | Started::InProgress(export)) = &started;
        self.ensure_job(account, &export.id, now).await?;
        Ok(started)
    }

    /// Returns an export of an account. Returns `None` if the account has no such export.
    ///
    /// # Errors
    /// Returns 500 if the database fails.
    pub async fn find(&self, account: &str, id: &str) -> Result<Option<Export>, Failure> {
        let now = self.parts.jobs.now().await?;
        let stored = self.parts.directory.exports.find(id, now).await?;
        let stored = stored.filter(|stored| stored.account == account);
        let Some(export) = stored.map(Export::from) else {
            return Ok(None);
        };
        // A host can have stopped between the row of the export and its job.
        if export.status == Status::Pending {
            self.ensure_job(account, id, now).await?;
        }
        Ok(Some(export))
    }

    /// Returns the archive of a ready export. Returns `None` if this host has no such file.
    ///
    /// # Errors
    /// Returns 500 if the file cannot be read.
    pub async fn archive(&self, export: &Export) -> Result<Option<Archive>, Failure> {
        if export.status != Status::Ready {
            return Ok(None);
        }
        let path = self.archive_path(&export.id);
        match tokio::fs::metadata(&path).await {
            Ok(metadata) => Ok(Some(Archive {
                path,
                size: metadata.len(),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::internal(error)),
        }
    }

    /// Exports an account that is being deleted, and keeps the archive for a week. Returns `true`
    /// if the archive is complete, or if the export failed, so that a full disk does not prevent
    /// the deletion. Returns `false` if the export needs more time: the caller calls this function
    /// again after some seconds, possibly on another host.
    ///
    /// # Errors
    /// Returns 500 if the database or the file system fails.
    pub async fn export_last(&self, account: &str) -> Result<bool, Failure> {
        let now = self.parts.jobs.now().await?;
        let Some(last) = self.parts.directory.exports.last(account, now).await? else {
            self.start_export(account, true, &Origin::service()).await?;
            return Ok(false);
        };
        let last = Export::from(last);
        match last.status {
            Status::Pending | Status::Running => {
                self.ensure_job(account, &last.id, now).await?;
                return Ok(false);
            }
            // The archive is missing if an earlier call has moved it.
            Status::Ready => drop(self.keep(account, &last.id).await?),
            Status::Failed => {
                tracing::warn!(
                    account,
                    reason = last.error,
                    "a deleted account has no archive"
                );
            }
        }
        Ok(true)
    }

    /// Moves the archive of a ready export of an account to a folder in which it stays for a week,
    /// although the account is deleted. Returns the new path, or `None` if there is no archive.
    ///
    /// # Errors
    /// Returns 500 if the database or the file system fails.
    pub async fn keep(&self, account: &str, id: &str) -> Result<Option<PathBuf>, Failure> {
        let Some(export) = self.find(account, id).await? else {
            return Ok(None);
        };
        let Some(archive) = self.archive(&export).await? else {
            return Ok(None);
        };
        let folder = self.root.join(KEPT);
        let kept = folder.join(format!("{id}.{ENDING}"));
        let target = kept.clone();
        blocking(move || {
            work::prepare(&folder)?;
            fs::rename(&archive.path, &target)
        })
        .await?;
        Ok(Some(kept))
    }

    /// Deletes the files of exports that are not in the database any longer.
    ///
    /// # Errors
    /// Returns 500 if the database or the file system fails.
    pub async fn clean_up(&self) -> Result<(), Failure> {
        let root = self.root.clone();
        // The files are listed first, because the row of an export is older than its files.
        let listed = blocking(move || list(&root)).await?;
        if listed.is_empty() {
            return Ok(());
        }
        let ids = self.parts.directory.exports.ids().await?;
        let kept = self.root.join(KEPT);
        blocking(move || {
            for path in listed {
                if path == kept {
                    delete_old(&path)?;
                } else if own_id(&path).is_some_and(|id| ids.iter().all(|known| known != id)) {
                    delete(&path)?;
                }
            }
            Ok(())
        })
        .await
    }

    pub(crate) fn archive_path(&self, id: &str) -> PathBuf {
        self.root.join(format!("{id}.{ENDING}"))
    }

    async fn ensure_job(&self, account: &str, id: &str, now: Timestamp) -> Result<(), Failure> {
        let job = NewJob {
            kind: KIND,
            key: id,
            account,
            due_at: now,
            payload: b"",
            limit: 1,
        };
        self.parts.jobs.ensure(job).await
    }
}

/// Runs a function that uses the file system.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let result = tokio::task::spawn_blocking(run).await;
    result
        .map_err(Failure::internal)?
        .map_err(Failure::internal)
}

/// Returns the paths in a folder. The folder need not exist.
fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns the id of the export to which a file or a folder belongs. Returns `None` for others, so
/// that a wrong `export.path` never deletes the files of other programs.
fn own_id(path: &Path) -> Option<&str> {
    let id = path.file_stem()?.to_str()?;
    let is_id = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_own = match path.extension() {
        Some(extension) => extension == ENDING,
        None => path.join(work::LOCK).is_file(),
    };
    (is_id && is_own).then_some(id)
}

/// Deletes the archives in a folder that are older than a week.
fn delete_old(folder: &Path) -> io::Result<()> {
    for path in list(folder)? {
        let age = SystemTime::now().duration_since(fs::metadata(&path)?.modified()?);
        if age.is_ok_and(|age| age > RETENTION) {
            delete(&path)?;
        }
    }
    Ok(())
}

/// Deletes a file, or a folder with its files. Another host can have deleted it.
pub(crate) fn delete(path: &Path) -> io::Result<()> {
    let deleted = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match deleted {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_exports_have_an_id() {
        let root = tempfile::tempdir().unwrap();
        let id = secrets::id().unwrap();
        let path = |name: &str| root.path().join(name);
        work::Work::open(root.path(), &id).unwrap().unwrap();
        fs::create_dir(path("abcdefghijklmnopqrstuvwx")).unwrap();
        assert_eq!(own_id(&path(&id)), Some(&*id));
        assert_eq!(own_id(&path(&format!("{id}.zip"))), Some(&*id));
        for other in ["abcdefghijklmnopqrstuvwx", "mail.zip", "kept", "db.sqlite"] {
            assert_eq!(own_id(&path(other)), None, "{other}");
        }
    }
}
