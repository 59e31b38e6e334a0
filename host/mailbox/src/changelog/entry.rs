//! The entries of the change log: changes of messages and folders, and events of the account.

use latchmail_core::clock::Timestamp;

use super::change::Change;
use super::cursor::Cursor;

/// An entry of the change log of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The content of the entry.
    pub content: EntryContent,
    /// The time of the entry. For several changes that are collapsed to one, the time of the first
    /// change.
    pub time: Timestamp,
    /// The position after the entry.
    pub(super) after: Cursor,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryContent {
    /// A change of a message or folder.
    Change(Change),
    /// Another event of the account.
    Event {
        /// The type of the event, such as `outbox.sent`.
        kind: String,
        /// A JSON object.
        data: String,
    },
}

impl Entry {
    /// Returns the change of a message or folder. Returns `None` for other events.
    #[must_use]
    pub fn into_change(self) -> Option<Change> {
        match self.content {
            EntryContent::Change(change) => Some(change),
            EntryContent::Event { .. } => None,
        }
    }
}
