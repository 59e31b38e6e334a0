//! The steps of an export. Each step writes some messages and then records its progress, so that a
//! killed export continues with the next messages. The last step writes the archive from the parts.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::Uid;
use latchmail_directory::exports::{self as directory, Ended};
use latchmail_directory::jobs::Lease;
use latchmail_jobs::{Handler, Job, Limits, Outcome, Step, run_steps};
use latchmail_mailbox::{Access, ExportBatch, ExportedMessage};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;

use crate::account::{self, FILES};
use crate::archive::{self, FORMAT, Folder, MANIFEST, Manifest, VERSION};
use crate::error::Error;
use crate::exports::{Exports, KIND, RETENTION, delete};
use crate::work::{self, Item, Lengths, Work, part_names};

/// The limits of the runner of exports. One export at a time on each host takes a turn, so that the
/// check of the free space is exact, and exports delay no other jobs.
pub const LIMITS: Limits = Limits {
    running: 1,
    of_account: 1,
    lease: Duration::from_secs(10),
};
/// The time after which an export that has not ended fails. Deletions of accounts wait for it.
const MAX_DURATION: Duration = Duration::from_hours(24);
/// The wait for another host that is ending a step.
const LOCKED_WAIT: Duration = Duration::from_secs(2);
/// The space that must be free before a step: a batch of messages, or a large message twice.
const BATCH_SPACE: u64 = 16 * 1024 * 1024;
const LARGE_SPACE: u64 = 256 * 1024 * 1024;

const NO_SPACE: &str = "There is not enough space for the export";
const TOO_LONG: &str = "The export took too long";
const NO_ACCESS: &str = "The account is disabled";

/// What is written.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Progress {
    /// The address of the account.
    address: String,
    /// The position of the current folder.
    folder: usize,
    /// The UIDVALIDITY of the current folder, if a step has read it.
    uid_validity: Option<u32>,
    /// The UID at which the next batch begins.
    next_uid: u32,
    /// The valid lengths of the parts of the current folder.
    mbox: u64,
    data: u64,
    /// The number of messages of the current folder, and of all folders.
    in_folder: u64,
    messages: u64,
}

impl Progress {
    fn begin_folder(&mut self, folder: usize) {
        self.messages -= if folder == self.folder {
            self.in_folder
        } else {
            0
        };
        self.folder = folder;
        self.uid_validity = None;
        self.next_uid = 1;
        (self.mbox, self.data, self.in_folder) = (0, 0, 0);
    }
}

/// Does the steps of exports.
#[derive(Debug)]
pub struct ExportJobs(pub Arc<Exports>);

impl Handler for ExportJobs {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Outcome> {
        let exports = &self.0;
        let (trace, span) = exports.parts.tracer.begin_work(|| "export job".into());
        let step = move |now| exports.step(job, now).boxed();
        let steps = run_steps(&exports.parts.jobs, job, &exports.stopping, span, step);
        trace.scope(steps).boxed()
    }
}

/// The export of a step.
struct Current<'c> {
    export: &'c directory::Export,
    lease: &'c Lease,
    access: &'c Access,
    work: Arc<Work>,
}

impl Exports {
    /// Does the next step of an export.
    async fn step(&self, job: &Job, now: Timestamp) -> Result<Step, Error> {
        let Some(lease) = &job.lease else {
            return Ok(Step::Done);
        };
        let export = self.parts.directory.exports.find(&job.key, now).await?;
        let is_unfinished = |export: &directory::Export| {
            matches!(&*export.state, "pending" | "running") && export.account == job.account
        };
        let (root, id) = (self.root.clone(), job.key.clone());
        let Some(export) = export.filter(is_unfinished) else {
            // A killed process can have left the parts.
            blocking(move || Ok(delete(&root.join(id))?)).await?;
            return Ok(Step::Done);
        };
        let Some(work) = blocking(move || Ok(Work::open(&root, &id)?)).await? else {
            return Ok(Step::At(now.plus(LOCKED_WAIT)));
        };
        let work = Arc::new(work);
        let result = if now.since(export.created_at()) > MAX_DURATION {
            Err(Error::Final(TOO_LONG))
        } else {
            self.locked_step((&export, lease), &work, now).await
        };
        let reason = match result {
            Err(Error::Final(reason)) => reason,
            Err(Error::Io(error)) if is_full(&error) => NO_SPACE,
            // The service stops.
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {
                return Ok(Step::At(now));
            }
            result => return result,
        };
        let folder = work.path().to_owned();
        blocking(move || Ok(delete(&folder)?)).await?;
        let exports = &self.parts.directory.exports;
        let expires_at = now.plus(RETENTION);
        let ended = exports.end(&export.id, lease, Ended::Failed(reason), expires_at);
        ended.await?;
        Ok(Step::Done)
    }

    async fn locked_step(
        &self,
        (export, lease): (&directory::Export, &Lease),
        work: &Arc<Work>,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let rights = if export.is_last {
            &self.parts.last_rights
        } else {
            &self.parts.rights
        };
        let access = rights.access(&export.account, None).await?;
        let access = access.ok_or(Error::Final(NO_ACCESS))?;
        let current = Current {
            export,
            lease,
            access: &access,
            work: Arc::clone(work),
        };
        let progress = export
            .progress
            .as_deref()
            .map(serde_json::from_str::<Progress>);
        let reading = Arc::clone(work);
        let folders = blocking(move || Ok(reading.read_folders()?)).await?;
        let (Some(Ok(progress)), Some(folders)) = (progress, folders) else {
            return self.begin(&current).await;
        };
        match folders.get(progress.folder) {
            Some(folder) => self.add_messages(&current, progress, folder).await,
            None => self.finish(&current, &progress, folders, now).await,
        }
    }

    /// Lists the folders, and writes the files about the account.
    async fn begin(&self, current: &Current<'_>) -> Result<Step, Error> {
        // The archive that this export replaces must not take its space.
        self.clean_up().await?;
        self.require_space(BATCH_SPACE).await?;
        let (access, account) = (current.access, &*current.export.account);
        let (directory, filters) = (&self.parts.directory, &self.parts.filters);
        let (address, data) = account::read(directory, filters, access).await?;
        let journal = account::journal(directory, &self.parts.journal, account).await?;
        let listed = self.parts.mail.listing.folders(access).await?;
        let folders = listed.into_iter().enumerate().map(|(index, (listed, id))| {
            let mut folder = Folder {
                path: listed.path,
                delimiter: listed.delimiter,
                id: id.to_string(),
                role: listed.role.map(|role| role.name().to_owned()),
                mbox: String::new(),
                data: String::new(),
            };
            folder.set_files(index);
            folder
        });
        let folders: Vec<Folder> = folders.collect();
        let work = Arc::clone(&current.work);
        blocking(move || {
            work.clear()?;
            for (name, value) in FILES.iter().zip(data.iter().chain([&journal])) {
                work.write_json(name, value)?;
            }
            Ok(work.write_folders(&folders)?)
        })
        .await?;
        let progress = Progress {
            address,
            next_uid: 1,
            ..Progress::default()
        };
        self.record(current, &progress).await
    }

    /// Writes the next messages of the current folder.
    async fn add_messages(
        &self,
        current: &Current<'_>,
        mut progress: Progress,
        folder: &Folder,
    ) -> Result<Step, Error> {
        self.require_space(BATCH_SPACE).await?;
        let reading = &self.parts.mail.reading;
        let (access, path) = (current.access, &*folder.path);
        let batch = reading
            .export_batch(access, path, progress.next_uid)
            .await?;
        // The folder was deleted since it was listed.
        let batch = batch.unwrap_or(ExportBatch {
            uid_validity: progress.uid_validity.unwrap_or(0),
            messages: Vec::new(),
            next: None,
        });
        let uid_validity = progress.uid_validity.get_or_insert(batch.uid_validity);
        if *uid_validity != batch.uid_validity {
            // Another folder has replaced the folder.
            progress.begin_folder(progress.folder);
            return self.record(current, &progress).await;
        }
        let mut items = Vec::with_capacity(batch.messages.len());
        for message in batch.messages {
            if message.content.is_none() {
                self.append(current, &mut progress, folder, &mut items, false)
                    .await?;
                let at = (batch.uid_validity, message.uid);
                if !self.spool(current, path, at).await? {
                    continue;
                }
                items.push(item(message));
                self.append(current, &mut progress, folder, &mut items, false)
                    .await?;
            } else {
                items.push(item(message));
            }
        }
        let closes = batch.next.is_none();
        self.append(current, &mut progress, folder, &mut items, closes)
            .await?;
        match batch.next {
            Some(next) => progress.next_uid = next,
            None => progress.begin_folder(progress.folder + 1),
        }
        self.record(current, &progress).await
    }

    /// Writes the bytes of a large message to the spool file. Returns `false` if the message does
    /// not exist any longer.
    async fn spool(
        &self,
        current: &Current<'_>,
        path: &str,
        at: (u32, Uid),
    ) -> Result<bool, Error> {
        self.require_space(LARGE_SPACE).await?;
        let spool = current.work.spool();
        let file = blocking(move || Ok(work::create(&spool)?)).await?;
        let mut file = tokio::fs::File::from_std(file);
        let reading = &self.parts.mail.reading;
        let found = reading
            .export_content(current.access, path, at, &mut file)
            .await?;
        file.flush().await?;
        Ok(found)
    }

    /// Appends messages to the parts of the current folder.
    async fn append(
        &self,
        current: &Current<'_>,
        progress: &mut Progress,
        folder: &Folder,
        items: &mut Vec<Item>,
        closes: bool,
    ) -> Result<(), Error> {
        if items.is_empty() && !closes {
            return Ok(());
        }
        let (items, work, folder) = (
            std::mem::take(items),
            Arc::clone(&current.work),
            folder.clone(),
        );
        let count = items.len() as u64;
        let (index, uid_validity) = (progress.folder, progress.uid_validity);
        let is_first = progress.in_folder == 0;
        let at = Lengths {
            mbox: progress.mbox,
            data: progress.data,
        };
        let appended = blocking(move || {
            let folder = (index, &folder, uid_validity);
            Ok(work.append(folder, at, is_first, &items, closes)?)
        });
        // The machine has lost the end of the files, so the folder begins again.
        let Some(lengths) = appended.await? else {
            let mut again = Progress {
                address: progress.address.clone(),
                folder: index,
                in_folder: progress.in_folder,
                messages: progress.messages,
                ..Progress::default()
            };
            again.begin_folder(index);
            self.record(current, &again).await?;
            let lost = "the files of the export are incomplete; the folder is exported again";
            return Err(io::Error::other(lost).into());
        };
        (progress.mbox, progress.data) = (lengths.mbox, lengths.data);
        progress.in_folder += count;
        progress.messages += count;
        Ok(())
    }

    /// Writes the archive from the parts.
    async fn finish(
        &self,
        current: &Current<'_>,
        progress: &Progress,
        folders: Vec<Folder>,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let (work, export) = (Arc::clone(&current.work), current.export);
        let parts = current.work.path().to_owned();
        let needed = blocking(move || Ok(work::used(&parts)?)).await?;
        self.require_space(needed).await?;
        let mut files: Vec<(String, String)> = [MANIFEST]
            .iter()
            .chain(&FILES)
            .map(|name| ((*name).to_owned(), (*name).to_owned()))
            .collect();
        for (index, folder) in folders.iter().enumerate() {
            let (mbox, data) = part_names(index);
            files.push((folder.mbox.clone(), mbox));
            files.push((folder.data.clone(), data));
        }
        let manifest = Manifest {
            format: FORMAT.into(),
            version: VERSION,
            address: progress.address.clone(),
            created_at: export.created_at().to_string(),
            messages: progress.messages,
            folders,
        };
        let target = self.archive_path(&export.id);
        let stopping = self.stopping.clone();
        let size = blocking(move || {
            work.write_json(MANIFEST, &manifest)?;
            let unfinished = work.path().join("archive");
            let size = archive::write(&unfinished, work.path(), &files, &stopping)?;
            std::fs::rename(&unfinished, &target)?;
            Ok(size)
        })
        .await?;
        let ended = Ended::Ready(size);
        let expires_at = now.plus(RETENTION);
        let exports = &self.parts.directory.exports;
        exports
            .end(&export.id, current.lease, ended, expires_at)
            .await?;
        let folder = current.work.path().to_owned();
        blocking(move || Ok(delete(&folder)?)).await?;
        Ok(Step::Done)
    }

    /// Stores the progress. The next step follows, unless another host has taken over the export.
    async fn record(&self, current: &Current<'_>, progress: &Progress) -> Result<Step, Error> {
        let text = serde_json::to_string(progress)?;
        let (id, messages) = (&*current.export.id, progress.messages);
        let exports = &self.parts.directory.exports;
        let stored = exports.set_progress(id, current.lease, &text, messages);
        Ok(if stored.await? {
            Step::Continue
        } else {
            Step::Done
        })
    }

    /// Returns an error if the folder of exports has less than `bytes` of free space.
    async fn require_space(&self, bytes: u64) -> Result<(), Error> {
        let root = self.root.clone();
        let used = blocking(move || Ok(work::used(&root)?)).await?;
        if used.saturating_add(bytes) > self.max_bytes {
            return Err(Error::Final(NO_SPACE));
        }
        Ok(())
    }
}

fn item(message: ExportedMessage) -> Item {
    Item {
        number: message.number.map(|number| number.0),
        uid: message.uid.0,
        flags: message.flags,
        received_at: message.received_at,
        content: message.content,
    }
}

/// Runs a function that uses the file system.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let result = tokio::task::spawn_blocking(run).await;
    result.unwrap_or_else(|error| Err(io::Error::other(error).into()))
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
