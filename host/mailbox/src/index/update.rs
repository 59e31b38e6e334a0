//! Updates a search index: synchronizes the message index in the database with the mail server,
//! reads new messages from the mail server, and adds these messages to the search index.
//!
//! A message is missing if its message number is in the message index and not in the search index.
//! Therefore an update after a crash continues after the last commit to the search index.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_directory::message_index;
use latchmail_imap::MessageRef;
use latchmail_search::{Index, Writer};

use super::content::{Content, Mailbox};
use super::document::MessageDocument;
use super::indexes::{AccountIndex, Pause};
use super::mailbox_threads::MailboxThreads;
use super::{SearchIndex, files};
use crate::access::Access;
use crate::blocking;
use crate::error::Error;

/// Maximum number of missing messages that a search adds to the index. If more messages are
/// missing, the index is built in the background.
pub(super) const MAX_FOREGROUND: usize = 200;

/// Maximum number of attempts to read messages that other clients move during the update.
const ATTEMPTS: usize = 3;

/// The number of messages that are read with one command.
const BATCH: usize = 50;

/// Memory for the messages of a writer, in bytes.
const WRITER_MEMORY: usize = 16 * 1024 * 1024;

/// Maximum time to wait until another writer of the same index ends.
const WRITER_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of messages after which a build stores its progress.
const COMMIT: usize = 5_000;

/// Maximum time for which a build adds messages without a pause. After this time, the build ends
/// and waits until other builds have run.
const TIME_SLICE: Duration = Duration::from_secs(20);

/// The interval at which the checksums of an open index are verified.
const VERIFY_INTERVAL: Duration = Duration::from_hours(1);

/// The result of an update without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    /// The index is current.
    Current,
    /// The index must be built in the background.
    BuildNeeded,
    /// The build has used its time slice. The next update continues the build.
    TimeSliceUsed,
}

impl SearchIndex {
    /// Brings an index to the current state of the mailbox. Returns [`Update::BuildNeeded`] and
    /// changes nothing if more than `limit` messages are missing.
    ///
    /// # Errors
    /// Returns an [`Error`] if the mail server, the database or the search index fails. An index
    /// that is damaged or too large is deleted.
    pub(super) async fn update_index(
        &self,
        account: &AccountIndex,
        limit: usize,
    ) -> Result<Update, Error> {
        let _lock = account.update.lock().await;
        let updated = self.update_locked(account, limit).await;
        account.set_updated(updated.is_ok());
        match &updated {
            Err(IndexError::Damaged(reason)) => {
                *account.content.write().await = None;
                delete_damaged(account, reason).await;
            }
            Err(IndexError::TooLarge) => delete_excess(account).await,
            _ => {}
        }
        Ok(updated?)
    }

    async fn update_locked(
        &self,
        account: &AccountIndex,
        limit: usize,
    ) -> Result<Update, IndexError> {
        let access = self.access_of(&account.account).await?;
        let access = access.ok_or_else(|| Error::Unavailable("the account is disabled".into()))?;
        for _ in 0..ATTEMPTS {
            self.numbers.sync(&access).await?;
            let is_open = account.content.read().await.is_some();
            let is_updated = is_open && self.apply_changes(account, &access).await?;
            if !is_updated {
                let opened = self.open_index(account, &access, limit).await?;
                if opened != Update::Current {
                    return Ok(opened);
                }
            }
            let content = account.content.read().await;
            let is_complete = |content: &Content| {
                let unreadable = account.unreadable();
                let mut unindexed = content.unindexed.iter();
                unindexed.all(|number| unreadable.is_skipped(*number, Instant::now()))
            };
            if content.as_ref().is_none_or(is_complete) {
                return Ok(Update::Current);
            }
        }
        tracing::warn!(
            account = account.account,
            "the search index does not contain messages that were moved during every attempt"
        );
        Ok(Update::Current)
    }

    /// Applies the changes since the last update to an open index. Returns `false` if the index
    /// must be opened again.
    async fn apply_changes(
        &self,
        account: &AccountIndex,
        access: &Access,
    ) -> Result<bool, IndexError> {
        let (index, version) = {
            let content = account.content.read().await;
            let Some(content) = &*content else {
                return Ok(false);
            };
            (Arc::clone(&content.index), content.mailbox.version)
        };
        let delta = self
            .context
            .directory
            .message_index
            .replica_since(&account.account, version)
            .await?;
        let Some(delta) = delta else {
            *account.content.write().await = None;
            return Ok(false);
        };
        let missing = {
            let content = account.content.read().await;
            let Some(content) = &*content else {
                return Ok(false);
            };
            content.missing(&delta)
        };
        let numbers: BTreeSet<MessageNumber> =
            missing.iter().map(|missing| missing.number).collect();
        let missing = account.readable(missing);
        // Close the index if many messages are missing. `open_index` then adds the messages, or
        // reports that the index must be built.
        if missing.len() > MAX_FOREGROUND {
            *account.content.write().await = None;
            return Ok(false);
        }
        let new = if missing.is_empty() && delta.removed.is_empty() {
            Vec::new()
        } else {
            let added = self.index_messages(account, access, &index, missing, &delta.removed);
            added.await?.documents
        };
        // Apply the changes on a blocking thread. The changes can take long if a removed message
        // has a long thread, or if a removed folder has many messages.
        let mut content = Arc::clone(&account.content).write_owned().await;
        let applied = blocking::run(move || {
            if let Some(content) = &mut *content {
                content.mailbox.apply(&delta);
                content.threads.update(&new, &delta.removed);
                let added: BTreeSet<MessageNumber> =
                    new.iter().map(|document| document.number).collect();
                content.unindexed = &numbers - &added;
            }
        });
        applied.await.map_err(IndexError::Internal)?;
        Ok(true)
    }

    /// Opens an index and adds all missing messages. Returns [`Update::BuildNeeded`] if more than
    /// `limit` messages are missing.
    async fn open_index(
        &self,
        account: &AccountIndex,
        access: &Access,
        limit: usize,
    ) -> Result<Update, IndexError> {
        let Some(replica) = self
            .context
            .directory
            .message_index
            .replica(&account.account)
            .await?
        else {
            return Ok(Update::BuildNeeded);
        };
        let folder = account.folder.clone();
        let opened = blocking::run(move || {
            files::prepare(&folder)?;
            let index = Index::open(&folder)?;
            let numbers = index.numbers()?;
            let mailbox = Mailbox::new(&replica);
            let indexed: HashSet<MessageNumber> = numbers.iter().copied().collect();
            let removed: Vec<MessageNumber> = numbers
                .into_iter()
                .filter(|number| mailbox.state.get(*number).is_none())
                .collect();
            let mut missing: Vec<Missing> = replica
                .messages
                .iter()
                .filter(|message| !indexed.contains(&message.number))
                .filter_map(|message| {
                    let folder = replica.folders.get(message.folder)?;
                    Some(Missing::new(message.number, folder, message.imap_uid))
                })
                .collect();
            // Newest messages first.
            missing.sort_unstable_by_key(|missing| std::cmp::Reverse(missing.number));
            Ok::<_, latchmail_search::Error>((Arc::new(index), mailbox, missing, removed))
        });
        let (index, mailbox, missing, removed) = opened.await.map_err(IndexError::Damaged)??;
        let mut unindexed: BTreeSet<MessageNumber> =
            missing.iter().map(|missing| missing.number).collect();
        let missing = account.readable(missing);
        if missing.len() > limit {
            return Ok(Update::BuildNeeded);
        }
        if !missing.is_empty() || !removed.is_empty() {
            let added = self.index_messages(account, access, &index, missing, &removed);
            let added = added.await?;
            if added.time_slice_used {
                return Ok(Update::TimeSliceUsed);
            }
            for number in added.numbers {
                unindexed.remove(&number);
            }
        }
        let for_threads = Arc::clone(&index);
        let threads = blocking::run(move || {
            Ok::<_, latchmail_search::Error>(MailboxThreads::new(for_threads.thread_keys()?))
        });
        let threads = threads.await.map_err(IndexError::Damaged)??;
        *account.content.write().await = Some(Content {
            index,
            mailbox,
            threads,
            unindexed,
            verified: Instant::now(),
        });
        Ok(Update::Current)
    }

    /// Adds the messages in `missing` to the index, and removes the messages in `removed`. Omits
    /// messages that are not at their locations or that the mail server fails to return. If
    /// `missing` contains more than [`MAX_FOREGROUND`] messages, ends after a time slice.
    async fn index_messages(
        &self,
        account: &AccountIndex,
        access: &Access,
        index: &Arc<Index>,
        missing: Vec<Missing>,
        removed: &[MessageNumber],
    ) -> Result<Added, IndexError> {
        let keep = missing.len() <= MAX_FOREGROUND;
        let _permit = match self.indexes.as_ref() {
            Some(indexes) if !keep => indexes.writer_permits.acquire().await.ok(),
            _ => None,
        };
        let started = Instant::now();
        let opened = Arc::clone(index);
        let removed = removed.to_vec();
        let writer = blocking::run(move || {
            let mut writer = open_writer(&opened)?;
            for number in removed {
                writer.remove(number)?;
            }
            Ok::<_, latchmail_search::Error>(writer)
        });
        let mut writer = writer.await.map_err(IndexError::Damaged)??;
        let (mut added, mut since_commit) = (Added::default(), 0);
        for batch in missing.chunks(BATCH) {
            if !keep && started.elapsed() > TIME_SLICE {
                added.time_slice_used = true;
                break;
            }
            let documents = self.read_documents(account, access, batch).await?;
            since_commit += documents.len();
            let end = if since_commit >= COMMIT {
                since_commit = 0;
                End::Commit
            } else {
                End::Continue
            };
            let (returned, documents) = write(writer, documents, end).await?;
            writer = returned;
            if matches!(end, End::Commit) {
                check_size(account).await?;
            }
            added
                .numbers
                .extend(documents.iter().map(|document| document.number));
            if keep {
                added.documents.extend(documents);
            }
        }
        let end = if keep || added.time_slice_used {
            End::Commit
        } else {
            End::Optimize
        };
        write(writer, Vec::new(), end).await?;
        check_size(account).await?;
        Ok(added)
    }

    /// Verifies the checksums of an open index if the last verification was some time ago. Closes
    /// and deletes a damaged index.
    pub(super) async fn verify_index(&self, account: &AccountIndex) {
        let index = {
            let content = account.content.read().await;
            let Some(content) = &*content else { return };
            if content.verified.elapsed() < VERIFY_INTERVAL {
                return;
            }
            Arc::clone(&content.index)
        };
        let verified = blocking::run(move || index.verify()).await;
        match verified {
            Ok(Ok(())) => {
                if let Some(content) = &mut *account.content.write().await {
                    content.verified = Instant::now();
                }
            }
            Ok(Err(error)) => self.close_index(account, &error).await,
            Err(_) => {}
        }
    }

    /// Closes an index after an error, and deletes the index if its files are damaged. The next
    /// search opens or builds the index again.
    pub(super) async fn close_index(
        &self,
        account: &AccountIndex,
        error: &latchmail_search::Error,
    ) {
        let _lock = account.update.lock().await;
        *account.content.write().await = None;
        if matches!(error, latchmail_search::Error::Damaged(_)) {
            delete_damaged(account, &error.to_string()).await;
        } else {
            tracing::warn!(account = account.account, %error, "closed the search index");
        }
    }
}

impl AccountIndex {
    /// Removes messages from `missing` that must not be read now, because earlier attempts to read
    /// these messages failed.
    fn readable(&self, mut missing: Vec<Missing>) -> Vec<Missing> {
        let unreadable = self.unreadable();
        let now = Instant::now();
        missing.retain(|missing| !unreadable.is_skipped(missing.number, now));
        missing
    }
}

/// Deletes the files of a damaged index. The caller must have closed the index.
async fn delete_damaged(account: &AccountIndex, reason: &str) {
    tracing::warn!(
        account = account.account,
        reason,
        "the search index is damaged and is built again"
    );
    let folder = account.folder.clone();
    if let Ok(Err(error)) = blocking::run(move || files::remove(&folder)).await {
        tracing::warn!(account = account.account, %error, "failed to delete a search index");
    }
}

/// Closes and deletes an index that uses too much disk space. The next searches do not build the
/// index again.
pub(super) async fn delete_excess(account: &AccountIndex) {
    *account.content.write().await = None;
    account.set_pause(Some(Pause::TooLarge(Instant::now())));
    let folder = account.folder.clone();
    tracing::warn!(
        account = account.account,
        "the search index needs too much disk space and is deleted"
    );
    if let Ok(Err(error)) = blocking::run(move || files::remove(&folder)).await {
        tracing::warn!(account = account.account, %error, "failed to delete a search index");
    }
}

/// Returns [`IndexError::TooLarge`] if the index exceeds the maximum size of one account's index.
async fn check_size(account: &AccountIndex) -> Result<(), IndexError> {
    let folder = account.folder.clone();
    let bytes = blocking::run(move || files::size(&folder)).await;
    match bytes {
        Ok(bytes) if bytes > account.max_bytes => Err(IndexError::TooLarge),
        _ => Ok(()),
    }
}

/// The messages that were added to an index.
#[derive(Default)]
struct Added {
    numbers: Vec<MessageNumber>,
    /// `true` if messages are missing because the time slice was used.
    time_slice_used: bool,
    /// The documents of the messages, if there are at most [`MAX_FOREGROUND`].
    documents: Vec<MessageDocument>,
}

/// The action after documents were added.
#[derive(Clone, Copy)]
enum End {
    /// Keep the documents in memory.
    Continue,
    /// Store all documents.
    Commit,
    /// Store all documents, and merge the files of the index.
    Optimize,
}

/// Creates a writer. If another writer of this index exists, waits at most [`WRITER_TIMEOUT`] for
/// its end. Such a writer can remain from a cancelled request.
fn open_writer(index: &Index) -> Result<Writer, latchmail_search::Error> {
    let started = Instant::now();
    loop {
        match index.writer(WRITER_MEMORY) {
            Err(latchmail_search::Error::Locked) if started.elapsed() < WRITER_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            writer => return writer,
        }
    }
}

/// Adds documents to the index. Returns the writer and the documents.
async fn write(
    mut writer: Writer,
    documents: Vec<MessageDocument>,
    end: End,
) -> Result<(Writer, Vec<MessageDocument>), IndexError> {
    let written = blocking::run(move || {
        for document in &documents {
            document
                .with_document(|document| writer.add(document))
                .map_err(|error| IndexError::Internal(error.to_string()))??;
        }
        if matches!(end, End::Commit | End::Optimize) {
            writer.commit()?;
        }
        if matches!(end, End::Optimize) {
            writer.optimize()?;
        }
        Ok::<_, IndexError>((writer, documents))
    });
    written.await.map_err(IndexError::Damaged)?
}

/// A message that the index does not contain.
pub(super) struct Missing {
    pub(super) number: MessageNumber,
    pub(super) path: Arc<str>,
    pub(super) uid_validity: u32,
    pub(super) imap_uid: Uid,
}

impl Content {
    /// Returns the messages that the search index does not contain: the messages that `delta` adds,
    /// and the messages that could not be read before.
    fn missing(&self, delta: &message_index::ReplicaDelta) -> Vec<Missing> {
        let state = &self.mailbox.state;
        let changed: HashSet<MessageNumber> =
            delta.changed.iter().map(|message| message.number).collect();
        let new = delta.changed.iter().filter_map(|message| {
            let is_new =
                state.get(message.number).is_none() || self.unindexed.contains(&message.number);
            let folder = delta.folders.get(message.folder)?;
            is_new.then(|| Missing::new(message.number, folder, message.imap_uid))
        });
        let removed: HashSet<MessageNumber> = delta.removed.iter().copied().collect();
        let unchanged = self.unindexed.iter().filter_map(|number| {
            if changed.contains(number) || removed.contains(number) {
                return None;
            }
            let location = state.get(*number)?;
            let folder = self.mailbox.folder_at(location.folder)?;
            Some(Missing::new(*number, folder, location.imap_uid))
        });
        new.chain(unchanged).collect()
    }
}

impl Missing {
    fn new(number: MessageNumber, folder: &message_index::ReplicaFolder, imap_uid: Uid) -> Self {
        Self {
            number,
            path: folder.path.as_str().into(),
            uid_validity: folder.uid_validity,
            imap_uid,
        }
    }

    pub(super) fn message_ref(&self) -> MessageRef<'_> {
        MessageRef {
            path: &self.path,
            uid_validity: self.uid_validity,
            uid: self.imap_uid,
        }
    }
}

/// The reason why an update failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum IndexError {
    /// The files of the index are damaged.
    #[error("{0}")]
    Damaged(String),
    /// The mail server or the database failed.
    #[error(transparent)]
    Mail(#[from] Error),
    /// The index exceeds the maximum size of one account's index.
    #[error("the search index needs too much disk space")]
    TooLarge,
    /// The index cannot be written, for example because the disk is full.
    #[error("{0}")]
    Internal(String),
}

impl IndexError {
    /// Returns `true` if the mail server rejected the command or closed the connection. A damaged
    /// message can cause each of these failures.
    pub(super) fn may_be_caused_by_message(&self) -> bool {
        matches!(
            self,
            Self::Mail(Error::Internal(_) | Error::Unavailable(_) | Error::Rejected(_))
        )
    }
}

impl From<latchmail_search::Error> for IndexError {
    fn from(error: latchmail_search::Error) -> Self {
        match error {
            latchmail_search::Error::Damaged(reason) => Self::Damaged(reason),
            error => Self::Internal(error.to_string()),
        }
    }
}

impl From<latchmail_directory::Error> for IndexError {
    fn from(error: latchmail_directory::Error) -> Self {
        Self::Mail(error.into())
    }
}

impl From<latchmail_imap::Error> for IndexError {
    fn from(error: latchmail_imap::Error) -> Self {
        Self::Mail(error.into())
    }
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Mail(error) => error,
            error @ IndexError::TooLarge => Self::Unavailable(error.to_string()),
            IndexError::Damaged(reason) | IndexError::Internal(reason) => Self::Internal(reason),
        }
    }
}
