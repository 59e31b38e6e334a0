//! Drafts: messages in the folder with the role `\Drafts`, which mail clients also edit.
//!
//! The database contains no drafts. The id of a draft is computed from its message ([`id`]), so all
//! hosts and mail clients refer to the same drafts. A draft is replaced by a new message: the new
//! message is stored first, then the old one is expunged. If several messages have the same id, for
//! example after a crash between these steps, the newest message is the draft.

mod content;
mod folder;
mod id;
mod original;
mod outgoing;
mod result;
mod send;
mod store;
mod stored;
mod submit;
mod survey;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use latchmail_core::clock::Clock;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_directory::Directory;
use quick_cache::sync::Cache;

use crate::access::Access;
use crate::cache::MAX_ACCOUNTS;
use crate::error::Error as MailboxError;
use crate::mail::Mail;
use crate::outbox::Outbox;
use survey::KnownIds;

pub use content::DraftContent;
pub use result::Error;
pub use stored::StoredDraft;
pub use submit::Submission;

/// Maximum number of accounts whose ids of drafts are cached.
const MAX_CACHED: usize = 1000;

/// The drafts of all mailboxes.
#[derive(Debug)]
pub struct Drafts {
    directory: Directory,
    mail: Arc<Mail>,
    outbox: Arc<Outbox>,
    clock: Clock,
    /// The cached path of each account's folder with drafts.
    folders: Cache<String, Arc<str>>,
    /// The cached ids of the messages in each account's folder with drafts.
    known: Cache<String, Arc<KnownIds>>,
    /// The changes in progress.
    tasks: DetachedTasks,
}

impl Drafts {
    /// Creates the service.
    #[must_use]
    pub fn new(directory: Directory, mail: Arc<Mail>, outbox: Arc<Outbox>, clock: Clock) -> Self {
        Self {
            directory,
            mail,
            outbox,
            clock,
            folders: Cache::new(MAX_ACCOUNTS),
            known: Cache::new(MAX_CACHED),
            tasks: DetachedTasks::default(),
        }
    }

    /// Stores a new draft. Creates the folder for drafts if there is none.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn create(
        self: &Arc<Self>,
        access: &Access,
        content: DraftContent,
    ) -> Result<StoredDraft, Error> {
        content.check()?;
        let (drafts, access) = (Arc::clone(self), access.clone());
        self.run(async move { drafts.create_now(&access, &content).await })
            .await
    }

    /// Replaces a draft, if it has the version `if_version`. Returns `None` if the draft does not
    /// exist.
    ///
    /// # Errors
    /// Returns [`Error::VersionMismatch`] if the draft has another version, or if another client
    /// has changed the draft during the call. Returns another [`Error`] if the operation fails.
    pub async fn replace(
        self: &Arc<Self>,
        access: &Access,
        id: &str,
        content: DraftContent,
        if_version: Option<String>,
    ) -> Result<Option<StoredDraft>, Error> {
        content.check()?;
        let (drafts, access, id) = (Arc::clone(self), access.clone(), id.to_owned());
        self.run(async move {
            let (access, _lock) = &drafts.mail.changing.lock(&access).await?;
            drafts
                .replace_now(access, &id, &content, if_version.as_deref())
                .await
        })
        .await
    }

    /// Deletes a draft permanently, if it has the version `if_version`. Returns `None` if the draft
    /// does not exist.
    ///
    /// # Errors
    /// Returns [`Error::VersionMismatch`] in the same cases as [`Drafts::replace`]. Returns another
    /// [`Error`] if the operation fails.
    pub async fn delete(
        self: &Arc<Self>,
        access: &Access,
        id: &str,
        if_version: Option<String>,
    ) -> Result<Option<()>, Error> {
        let (drafts, access, id) = (Arc::clone(self), access.clone(), id.to_owned());
        self.run(async move {
            let (access, _lock) = &drafts.mail.changing.lock(&access).await?;
            drafts.delete_now(access, &id, if_version.as_deref()).await
        })
        .await
    }

    /// Waits until no change is in progress.
    pub async fn finished(&self) {
        self.tasks.finished().await;
    }

    /// Runs a change on its own task. The change completes even if the caller is dropped.
    async fn run<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.tasks.spawn(change).await.unwrap_or_else(|error| {
            let why = format!("a change of a draft ended early: {error}");
            Err(MailboxError::Unknown(why).into())
        })
    }
}
