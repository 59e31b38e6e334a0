//! `latchmail:host/mailbox`: reading and changing the caller's mail.

use super::{Blob, Error, Host};
use crate::bindings::latchmail::host::mailbox;
pub use crate::bindings::latchmail::host::mailbox::{
    Address, Attachment, Authentication, Change, ChangeList, ChangedFolder, ChangedMessage,
    ChangesError, DeletedMessage, Detail, DetailWithBlobs, FlagAction, Folder, Hit, IndexState,
    Listing, Match, MessageQuery, MovedMessage, Page, PageStart, RenamedFolder, Role, Search,
    SearchError, SearchResult, Snippet, Summary, Thread, ThreadList, ThreadMessages, ThreadsError,
    Verdict,
};

/// The syntax of a search query, for the field `syntax` of [`Search`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuerySyntax {
    /// The query consists of words, phrases in quotation marks, and operators such as `from:`.
    Operators,
    /// The query consists of words only.
    Plain,
}

impl From<QuerySyntax> for String {
    fn from(syntax: QuerySyntax) -> Self {
        match syntax {
            QuerySyntax::Operators => "operators".into(),
            QuerySyntax::Plain => "plain".into(),
        }
    }
}

/// The order of a search result, for the field `sort` of [`Search`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    /// The newest message is first.
    Newest,
    /// The best match is first.
    Relevance,
}

impl From<SortOrder> for String {
    fn from(order: SortOrder) -> Self {
        match order {
            SortOrder::Newest => "newest".into(),
            SortOrder::Relevance => "relevance".into(),
        }
    }
}

impl MessageQuery {
    /// Creates a query for a page of all messages of a folder.
    #[must_use]
    pub fn page(folder: &str, page: Page) -> Self {
        Self {
            folder: folder.into(),
            filters: Vec::new(),
            start: PageStart::Offset(page.offset),
            limit: page.limit,
        }
    }
}

/// The caller's mail. Functions that read mail need the scope `mail:read`. Functions that change
/// mail need the scope `mail:write`.
///
/// Every function can return these errors:
///
/// - [`Error::CredentialRefused`] if the mail server rejects the caller's credential;
/// - [`Error::Unavailable`] if the mail server is not available;
/// - [`Error::Denied`] if the caller lacks the permission;
/// - [`Error::Internal`] if the host fails.
///
/// A function that changes mail can also return [`Error::Rejected`] if the mail server refuses the
/// change, and [`Error::OutcomeUnknown`] if the outcome is unknown. A function that changes mail
/// skips every `uid` for which no message exists. The function returns the `uid`s that were not
/// skipped.
pub trait Mailbox {
    /// Returns all folders. The folders with a role are first, in the order of the roles in the
    /// contract. The other folders are sorted by path.
    ///
    /// # Errors
    /// Returns an error in the cases that the description of [`Mailbox`] lists.
    fn list_folders(&self) -> Result<Vec<Folder>, Error>;

    /// Returns a page of a folder's messages, newest first.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist. Returns [`Error::Invalid`] if the
    /// limit is not 1 to 100, if a filter is unknown, or if the cursor is malformed or belongs to
    /// another folder or to other filters.
    fn list_messages(&self, query: &MessageQuery) -> Result<Listing, Error>;

    /// Returns a message of any folder by its `uid`.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist.
    fn get_message(&self, uid: u64) -> Result<Detail, Error>;

    /// Returns the same message as [`Mailbox::get_message`], but its texts are blobs. This function
    /// is faster for a module that only passes the texts on with
    /// [`Reply::json_with_texts`](crate::Reply::json_with_texts).
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist. Returns [`Error::TooLarge`] if
    /// the calls in one request return more than 64 MiB of texts.
    fn get_message_with_blobs(&self, uid: u64) -> Result<DetailWithBlobs, Error> {
        let mut detail = self.get_message(uid)?;
        let blob = |text: String| Blob::Bytes(text.into());
        Ok(DetailWithBlobs {
            text: detail.text.take().map(blob),
            html: detail.html.take().map(blob),
            new_text: detail.new_text.take().map(blob),
            detail,
        })
    }

    /// Returns an attachment of the message `uid`. Returns `None` if the message exists but has no
    /// attachment with this index.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist. Returns [`Error::TooLarge`] if
    /// the attachment is in the part of the message that the host does not read.
    fn get_attachment(&self, uid: u64, index: u32) -> Result<Option<(Attachment, Blob)>, Error>;

    /// Returns a page of the messages that match a query in their subject, participants, body or
    /// attachment names.
    ///
    /// # Errors
    /// Returns [`SearchError::InvalidQuery`] if a known operator has an invalid value. Returns
    /// [`Error::NotFound`] if the folder does not exist. Returns [`Error::Invalid`] if the limit is
    /// not 1 to 100. Also returns [`Error::Invalid`] if the query is empty, is longer than 1,000
    /// bytes or contains control characters.
    fn search_messages(&self, search: &Search) -> Result<SearchResult, SearchError>;

    /// Returns a page of the threads that have a message in the folder. The thread with the newest
    /// message is first. Without a folder, returns a page of all threads.
    ///
    /// # Errors
    /// Returns [`ThreadsError::IndexNotReady`] if the search index is disabled or being built.
    /// Returns [`Error::NotFound`] if the folder does not exist. Returns [`Error::Invalid`] if the
    /// limit is not 1 to 100.
    fn list_threads(&self, folder: Option<&str>, page: Page) -> Result<ThreadList, ThreadsError>;

    /// Returns a page of the messages of a thread from all folders, oldest first. The offset counts
    /// from the newest message.
    ///
    /// # Errors
    /// Returns [`ThreadsError::IndexNotReady`] if the search index is disabled or being built.
    /// Returns [`Error::NotFound`] if the thread does not exist. Returns [`Error::Invalid`] if the
    /// limit is not 1 to 100.
    fn get_thread(&self, id: &str, page: Page) -> Result<ThreadMessages, ThreadsError>;

    /// Returns at most `limit` changes since a cursor, in one folder or in all folders. Without a
    /// cursor, returns the current cursor and no changes. A cursor is valid only with the folder
    /// with which it was obtained.
    ///
    /// # Errors
    /// Returns [`ChangesError::CursorExpired`] if the cursor is not valid. Returns
    /// [`Error::NotFound`] if the folder does not exist. Returns [`Error::Invalid`] if the limit is
    /// not 1 to 500.
    fn list_changes(
        &self,
        since: Option<&str>,
        folder: Option<&str>,
        limit: u32,
    ) -> Result<ChangeList, ChangesError>;

    /// Adds or removes flags.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the list contains a flag that clients cannot set.
    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
    ) -> Result<Vec<u64>, Error>;

    /// Moves messages to a folder. The messages keep their `uid`.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist.
    fn move_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<u64>, Error>;

    /// Deletes messages permanently.
    ///
    /// # Errors
    /// Returns an error in the cases that the description of [`Mailbox`] lists.
    fn delete_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error>;
}

impl Mailbox for Host {
    fn list_folders(&self) -> Result<Vec<Folder>, Error> {
        mailbox::list_folders()
    }

    fn list_messages(&self, query: &MessageQuery) -> Result<Listing, Error> {
        mailbox::list_messages(query)
    }

    fn get_message(&self, uid: u64) -> Result<Detail, Error> {
        mailbox::get_message(uid)
    }

    fn get_message_with_blobs(&self, uid: u64) -> Result<DetailWithBlobs, Error> {
        mailbox::get_message_with_blobs(uid)
    }

    fn get_attachment(&self, uid: u64, index: u32) -> Result<Option<(Attachment, Blob)>, Error> {
        let found = mailbox::get_attachment(uid, index)?;
        Ok(found.map(|found| (found.attachment, found.content)))
    }

    fn search_messages(&self, search: &Search) -> Result<SearchResult, SearchError> {
        mailbox::search_messages(search)
    }

    fn list_threads(&self, folder: Option<&str>, page: Page) -> Result<ThreadList, ThreadsError> {
        mailbox::list_threads(folder, page)
    }

    fn get_thread(&self, id: &str, page: Page) -> Result<ThreadMessages, ThreadsError> {
        mailbox::get_thread(id, page)
    }

    fn list_changes(
        &self,
        since: Option<&str>,
        folder: Option<&str>,
        limit: u32,
    ) -> Result<ChangeList, ChangesError> {
        mailbox::list_changes(since, folder, limit)
    }

    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
    ) -> Result<Vec<u64>, Error> {
        mailbox::set_flags(uids, flags, action)
    }

    fn move_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<u64>, Error> {
        mailbox::move_messages(uids, destination)
    }

    fn delete_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        mailbox::delete_messages(uids)
    }
}
