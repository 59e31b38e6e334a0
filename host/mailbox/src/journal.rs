//! The journal of the changes that grants made: lists the changes, and undoes them.
//!
//! Changes of sessions and of mail clients are not recorded. A difference between the state after a
//! change of the grant and the next known state shows that another client has changed the object
//! since. Only what no other client has changed since is undone.

mod aliases;
mod drafts;
mod messages;
mod plan;
mod rewind;

use std::sync::Arc;

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::MessageNumber;
use latchmail_directory::grant_changes::{GrantChange, GrantChanges, State};
use serde_json::Value;

use crate::drafts::Drafts;
use crate::error::Error;
use crate::mail::Mail;

pub use rewind::Report;

/// Maximum number of changes on a page.
const MAX_PAGE: u32 = 200;

/// A recorded change of a grant.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    /// The id. A later change has a higher id.
    pub id: i64,
    /// The time.
    pub at: Timestamp,
    /// The kind, such as `move`.
    pub kind: String,
    /// `done`, `undone`, or `unknown` if a host stopped during the change.
    pub state: &'static str,
    /// The number of the message.
    pub number: Option<MessageNumber>,
    /// What was changed: a JSON object with the folders, flags or addresses.
    pub details: Value,
}

impl From<&GrantChange> for JournalEntry {
    fn from(change: &GrantChange) -> Self {
        Self {
            id: change.id,
            at: change.at(),
            kind: change.kind.clone(),
            state: match change.state() {
                State::Done | State::Undoing => "done",
                State::Undone => "undone",
                State::Begun => "unknown",
            },
            number: change.number(),
            details: serde_json::from_str(&change.details).unwrap_or_default(),
        }
    }
}

/// A page of the journal of a grant.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalPage {
    /// The changes, newest first.
    pub entries: Vec<JournalEntry>,
    /// The id before which the next page begins. `None` on the last page.
    pub next: Option<i64>,
}

/// The journals of the grants of all accounts.
#[derive(Debug)]
pub struct Journal {
    mail: Arc<Mail>,
    drafts: Arc<Drafts>,
    /// One lock per account, which serializes the calls that undo changes.
    rewinds: AccountPermits,
}

impl Journal {
    /// Creates the service.
    #[must_use]
    pub fn new(mail: Arc<Mail>, drafts: Arc<Drafts>) -> Self {
        Self {
            mail,
            drafts,
            rewinds: AccountPermits::new(1),
        }
    }

    fn changes(&self) -> &GrantChanges {
        &self.mail.context.directory.grant_changes
    }

    /// Returns the changes of a grant of an account, newest first, below the id `before`. The grant
    /// can have ended. The result is empty if the account has no such grant.
    ///
    /// # Errors
    /// Returns an [`Error`] if the database fails.
    pub async fn list(
        &self,
        account: &str,
        grant: &str,
        before: Option<i64>,
        limit: u32,
    ) -> Result<JournalPage, Error> {
        let limit = limit.clamp(1, MAX_PAGE);
        let before = before.unwrap_or(i64::MAX);
        let found = self.changes().list((account, grant), before, limit).await?;
        let is_full = found.len() == limit as usize;
        Ok(JournalPage {
            next: found.last().filter(|_| is_full).map(|last| last.id),
            entries: found.iter().map(JournalEntry::from).collect(),
        })
    }
}
