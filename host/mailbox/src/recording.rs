//! Records the changes that grants make. A change is recorded before it is made, and completed
//! afterwards. If a change cannot be recorded, it is not made.
//!
//! This module does not undo changes: [`crate::journal`] does.

use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::message_number::MessageNumber;
use latchmail_directory::grant_changes::{Completion, GrantChanges, Limits, NewChange, Place};
use latchmail_imap::flag::Flag;
use serde_json::Value;

use crate::access::Access;
use crate::context::Context;
use crate::error::Error;
use crate::message::notice::NOTICE_KEYWORD;

/// Limits of the journal: the changes of a grant, and the bytes of the drafts of an account. A
/// grant that reaches a limit can change nothing until older changes are deleted.
const LIMITS: Limits = Limits {
    changes: 200_000,
    bytes: 250 * 1024 * 1024,
};

/// The kinds of recorded changes.
pub(crate) mod kind {
    pub(crate) const FLAGS: &str = "flags";
    pub(crate) const MOVE: &str = "move";
    pub(crate) const COPY: &str = "copy";
    pub(crate) const DELETE: &str = "delete";
    pub(crate) const IMPORT: &str = "import";
    pub(crate) const DRAFT_CREATE: &str = "draft_create";
    pub(crate) const DRAFT_UPDATE: &str = "draft_update";
    pub(crate) const DRAFT_DELETE: &str = "draft_delete";
    pub(crate) const SEND: &str = "send";
    pub(crate) const SCHEDULE: &str = "schedule";
    pub(crate) const FOLDER_CREATE: &str = "folder_create";
    pub(crate) const FOLDER_RENAME: &str = "folder_rename";
    pub(crate) const FOLDER_DELETE: &str = "folder_delete";
    pub(crate) use latchmail_directory::aliases::{ALIAS_CREATE, ALIAS_DELETE, ALIAS_UPDATE};
}

/// Returns the subject of the changes of a message.
pub(crate) fn message_subject(number: MessageNumber) -> String {
    format!("message {}", number.0)
}

/// Returns the subject of the changes of a draft.
pub(crate) fn draft_subject(id: &str) -> String {
    format!("draft {id}")
}

/// Changes that are recorded and not completed.
#[derive(Debug)]
pub(crate) struct Recording {
    changes: GrantChanges,
    ids: Vec<i64>,
}

/// Records changes that a grant is about to make. Returns `None` if the access belongs to no grant.
/// The ids have the order of `changes`.
///
/// # Errors
/// Returns [`Error::TooLarge`] if the journal is full, or another [`Error`] if the database fails.
/// The change must not be made in that case.
pub(crate) async fn begin(
    context: &Context,
    access: &Access,
    changes: &[NewChange],
) -> Result<Option<Recording>, Error> {
    let Some(grant) = &access.grant else {
        return Ok(None);
    };
    let stored = &context.directory.grant_changes;
    let ids = if changes.is_empty() {
        Vec::new()
    } else {
        let owner = (&*access.account, &*grant.id);
        let begun = stored.begin(owner, changes, LIMITS, Clock::default().now());
        begun.await?.ok_or_else(|| {
            let text = "The journal of this grant is full";
            Error::TooLarge(Problem::new(codes::JOURNAL_FULL, text))
        })?
    };
    Ok(Some(Recording {
        changes: stored.clone(),
        ids,
    }))
}

impl Recording {
    pub(crate) fn ids(&self) -> &[i64] {
        &self.ids
    }

    /// Records that changes were made, and removes the records of the others. The changes were
    /// made, so a failure is only logged: the changes keep the state `begun`.
    pub(crate) async fn complete(self, completions: &[Completion]) {
        let is_made = |id: &i64| completions.iter().any(|one| one.id == *id);
        let others: Vec<i64> = self.ids.iter().copied().filter(|id| !is_made(id)).collect();
        let recorded = async {
            self.changes.complete(completions).await?;
            self.changes.cancel(&others).await
        };
        if let Err(error) = recorded.await {
            tracing::error!(%error, "failed to record the end of changes of a grant");
        }
    }

    /// Removes the records of changes that were not made.
    pub(crate) async fn cancel(self) {
        self.complete(&[]).await;
    }

    /// Records the outcome of a single change, which has no location. After an unknown outcome, the
    /// record keeps the state `begun`.
    pub(crate) async fn end(self, change: NewChange, outcome: Outcome) {
        match outcome {
            Outcome::Unknown => {}
            Outcome::NotMade => self.cancel().await,
            Outcome::Made => {
                let id = self.ids.first().copied().unwrap_or_default();
                self.complete(&[completion(id, change)]).await;
            }
        }
    }
}

/// Checks that a grant may set or remove these flags.
///
/// # Errors
/// Returns [`Error::Rejected`] if one of them is the keyword of notices.
pub(crate) fn require_free(flags: &[Flag]) -> Result<(), Error> {
    let is_keyword = |flag: &Flag| flag.as_str().eq_ignore_ascii_case(NOTICE_KEYWORD);
    if !flags.iter().any(is_keyword) {
        return Ok(());
    }
    let text = format!("The flag {NOTICE_KEYWORD} is reserved for the service");
    Err(Error::Rejected(text))
}

/// Makes a change that concerns no single message, with a record. `change` is only called for a
/// grant. The change returns `None` if it has no effect.
///
/// # Errors
/// Returns the error of the change, or an [`Error`] if the change cannot be recorded.
pub(crate) async fn recorded<T>(
    context: &Context,
    access: &Access,
    change: impl FnOnce() -> NewChange,
    made: impl Future<Output = Result<Option<T>, Error>>,
) -> Result<Option<T>, Error> {
    if access.grant.is_none() {
        return made.await;
    }
    let change = change();
    let recording = begin(context, access, std::slice::from_ref(&change)).await?;
    let made = made.await;
    if let Some(recording) = recording {
        let outcome = Outcome::of(made.as_ref().map(Option::is_some));
        recording.end(change, outcome).await;
    }
    made
}

/// Whether a change was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Made,
    NotMade,
    Unknown,
}

impl Outcome {
    /// Returns the outcome of a change. `Ok(false)` is a change without an effect.
    pub(crate) fn of(made: Result<bool, &Error>) -> Self {
        match made {
            Ok(true) => Self::Made,
            Err(Error::Unknown(_)) => Self::Unknown,
            Ok(false) | Err(_) => Self::NotMade,
        }
    }
}

/// Returns the completion of a change without a location.
pub(crate) fn completion(id: i64, change: NewChange) -> Completion {
    Completion {
        id,
        subject: change.subject,
        number: change.number,
        after: None,
        details: change.details,
    }
}

/// Returns a change without a message.
pub(crate) fn change_of(kind: &'static str, subject: String, details: &Value) -> NewChange {
    NewChange {
        kind,
        subject,
        number: None,
        before: None,
        details: details.to_string(),
        bytes: None,
    }
}

/// Returns the location of a message with the id of its folder. Returns `None` if the message index
/// does not contain the folder.
pub(crate) async fn place(
    context: &Context,
    account: &str,
    (path, uid_validity, imap_uid): (&str, u32, u32),
) -> Result<Option<Place>, Error> {
    let folder = context.message_index().folder_id(account, path).await?;
    Ok(folder.map(|folder| Place {
        folder,
        uid_validity,
        imap_uid,
    }))
}
