//! `latchmail:host/queries`: queries that return numbers of messages, for modules that implement
//! another protocol.

use super::{ChangeList, Error, Events, Host};
use crate::bindings::latchmail::host::queries;
pub use crate::bindings::latchmail::host::queries::{
    Anchor, Condition, CursorFormat, FilterNode, FolderCounts, Located, MessageFacts, NumberPage,
    NumberQuery, QueryError, QueryStart, SortKey, ThreadNumbers,
};

/// Queries of the caller's mailbox. Every function needs the scope `mail:read`.
///
/// Except for [`Queries::message_changes`] and [`Queries::stream_cursors`], the functions return
/// [`QueryError::IndexNotReady`] while the search index is disabled or being built.
pub trait Queries {
    /// Returns a page of the numbers of the messages that a filter selects.
    ///
    /// # Errors
    /// Returns [`QueryError::Unsupported`] if the host does not know a condition or a key. Returns
    /// [`QueryError::AnchorNotFound`] if the result does not contain the anchor.
    fn query_messages(&self, query: &NumberQuery) -> Result<NumberPage, QueryError>;

    /// Returns the data of messages that the host has in memory, in the order of `uids`. Skips
    /// numbers without a message.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] for more than 1,000 numbers.
    fn get_facts(&self, uids: &[u64]) -> Result<Vec<MessageFacts>, QueryError>;

    /// Returns the messages of threads. Skips ids without a thread.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] for more than 500 ids.
    fn get_threads(&self, ids: &[String]) -> Result<Vec<ThreadNumbers>, QueryError>;

    /// Returns the numbers of messages and threads of all folders.
    ///
    /// # Errors
    /// Returns an error in the cases that the description of [`Queries`] lists.
    fn count_messages(&self) -> Result<Vec<FolderCounts>, QueryError>;

    /// Returns the changes of all folders since a cursor. Each message of a deleted folder has a
    /// change of its own.
    ///
    /// # Errors
    /// Returns [`QueryError::CursorExpired`] if the cursor is not valid.
    fn message_changes(&self, since: Option<&str>, limit: u32) -> Result<ChangeList, QueryError>;

    /// Returns the current cursor after each change, as server-sent events.
    ///
    /// # Errors
    /// Returns [`QueryError::TooManyStreams`] if the caller has too many open streams.
    fn stream_cursors(
        &self,
        since: Option<&str>,
        format: &CursorFormat,
    ) -> Result<Events, QueryError>;
}

impl Queries for Host {
    fn query_messages(&self, query: &NumberQuery) -> Result<NumberPage, QueryError> {
        queries::query_messages(query)
    }

    fn get_facts(&self, uids: &[u64]) -> Result<Vec<MessageFacts>, QueryError> {
        queries::get_facts(uids)
    }

    fn get_threads(&self, ids: &[String]) -> Result<Vec<ThreadNumbers>, QueryError> {
        queries::get_threads(ids)
    }

    fn count_messages(&self) -> Result<Vec<FolderCounts>, QueryError> {
        queries::count_messages()
    }

    fn message_changes(&self, since: Option<&str>, limit: u32) -> Result<ChangeList, QueryError> {
        queries::list_changes(since, limit)
    }

    fn stream_cursors(
        &self,
        since: Option<&str>,
        format: &CursorFormat,
    ) -> Result<Events, QueryError> {
        queries::stream_cursors(since, format).map(Events::Host)
    }
}

impl From<Error> for QueryError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
