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
mod recording;
mod result;
mod send;
mod store;
mod stored;
mod submit;
mod survey;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use latchmail_core::clock::Clock;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::message_number::MessageNumber;
use latchmail_core::permissions::Right;
use latchmail_core::policy::{self, Action};
use latchmail_directory::Directory;
use quick_cache::sync::Cache;

use crate::access::Access;
use crate::cache::MAX_ACCOUNTS;
use crate::changing::acting;
use crate::error::Error as MailboxError;
use crate::mail::Mail;
use crate::outbox::{Error as OutboxError, Outbox};
use survey::KnownIds;

pub use content::DraftContent;
pub use result::Error;
pub use stored::StoredDraft;
pub use submit::Submission;

/// Maximum number of accounts whose ids of drafts are cached.
const MAX_CACHED: usize = 1000;

/// Describes a message that is in memory as a draft. The id, the version and the number in the
/// result have no meaning.
pub(crate) async fn describe_message(
    access: &Access,
    message: Bytes,
) -> Result<StoredDraft, OutboxError> {
    let number = MessageNumber(0);
    let id = id::DraftId::of_number(&access.account, number);
    let described = stored::describe_bytes(access, id, number, message).await;
    described.map_err(|error| match error {
        Error::Outbox(error) => error,
        Error::Mailbox(error) => error.into(),
        error => OutboxError::Internal(error.to_string()),
    })
}

/// Returns the number of the message of a draft. Returns `None` if the draft does not exist.
pub(crate) async fn draft_number(
    drafts: &Drafts,
    access: &Access,
    id: &str,
) -> Result<Option<MessageNumber>, MailboxError> {
    let found = drafts.find(access, id, &[Right::MailRead], None).await?;
    Ok(found.map(|found| found.number))
}

/// The drafts of all mailboxes.
#[derive(Debug)]
pub struct Drafts {
    directory: Directory,
    mail: Arc<Mail>,
    pub(crate) outbox: Arc<Outbox>,
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
        require_drafts(access)?;
        content.check()?;
        let (drafts, access) = (Arc::clone(self), access.clone());
        self.run(async move {
            let changing = &drafts.mail.changing;
            let access = acting(changing, Cow::Borrowed(&access)).await?;
            drafts.create_now(&access, &content).await
        })
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
        require_drafts(access)?;
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
        require_drafts(access)?;
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

/// Checks that the caller may write drafts.
///
/// # Errors
/// Returns an [`Error`] if a policy does not allow drafts.
fn require_drafts(access: &Access) -> Result<(), Error> {
    match access.policy() {
        Some(policy) if !policy.allows(Action::Draft) => {
            Err(MailboxError::Policy(policy::denied("writing drafts")).into())
        }
        _ => Ok(()),
    }
}
