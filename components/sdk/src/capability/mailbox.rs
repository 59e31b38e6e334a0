//! `latchmail:host/mailbox`: reading and changing the caller's mail.

use super::{Blob, Error, EventFilter, Events, Host, StreamError, Timestamp};
use crate::bindings::latchmail::host::mailbox;
pub use crate::bindings::latchmail::host::mailbox::{
    Address, Attachment, AttachmentContent, AttachmentLink, Authentication, Change, ChangeList,
    ChangedFolder, ChangedMessage, ChangesError, ConditionalError, CopiedMessage, DeletedMessage,
    Detail, DetailWithBlobs, FlagAction, Folder, HeaderField, Hit, ImportedMessage, IndexState,
    Listing, MailingList, Match, MessageDisposal, MessageHeader, MessageQuery, MessageVersion,
    MovedMessage, Page, PageStart, Quota, QuotaUsage, RawMessage, RenamedFolder, Role, Search,
    SearchError, SearchResult, Snippet, Spam, Summary, Thread, ThreadList, ThreadMessages,
    ThreadsError, Verdict,
};

/// A message to import.
#[derive(Debug)]
pub struct Import {
    /// The path of the folder.
    pub folder: String,
    /// The bytes of the message.
    pub message: Blob,
    /// The flags of the message.
    pub flags: Vec<String>,
    /// The time of arrival. `None` is the current time.
    pub received_at: Option<Timestamp>,
}

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
    fn get_attachment(&self, uid: u64, index: u32) -> Result<Option<AttachmentContent>, Error>;

    /// Returns a URL with which a program downloads an attachment once, without another credential.
    /// Returns `None` if the message exists but has no attachment with this index.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist. Returns [`Error::Denied`] for a
    /// handler, and for a member of a shared mailbox.
    fn create_attachment_link(&self, uid: u64, index: u32)
    -> Result<Option<AttachmentLink>, Error>;

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

    /// Returns the events since a cursor as server-sent events. Without a cursor, the stream begins
    /// with the next event. A cursor of [`Mailbox::list_changes`] is valid, too.
    ///
    /// # Errors
    /// Returns [`StreamError::CursorExpired`] if the cursor is not valid. Returns
    /// [`StreamError::TooManyStreams`] if the caller or the host has too many open streams. Returns
    /// [`Error::NotFound`] if the folder does not exist. Returns [`Error::Invalid`] if a type is
    /// unknown.
    fn stream_events(
        &self,
        since: Option<&str>,
        filter: &EventFilter,
    ) -> Result<Events, StreamError>;

    /// Waits until a change follows the cursor, at most `seconds` seconds. The stream is one JSON
    /// object with the members of [`ChangeList`].
    ///
    /// # Errors
    /// Returns [`StreamError::TooManyStreams`] if the caller or the host has too many open streams.
    /// Returns [`Error::Invalid`] if the limit is not 1 to 500, or `seconds` is not 1 to 60.
    fn wait_for_changes(
        &self,
        since: &str,
        folder: Option<&str>,
        limit: u32,
        seconds: u32,
    ) -> Result<Events, StreamError>;

    /// Adds, removes or replaces flags. With `if_version`, changes the only message in `uids` if it
    /// has this version ([`MessageVersion::state`]).
    ///
    /// # Errors
    /// Returns [`ConditionalError::VersionMismatch`] if the message has another version. Returns
    /// [`Error::Invalid`] if the list contains a flag that clients cannot set.
    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError>;

    /// Moves messages to a folder. The messages keep their `uid`. With `if_version`, moves the only
    /// message in `uids` if it has this version.
    ///
    /// # Errors
    /// Returns [`ConditionalError::VersionMismatch`] if the message has another version. Returns
    /// [`Error::NotFound`] if the folder does not exist.
    fn move_messages(
        &self,
        uids: &[u64],
        destination: &str,
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError>;

    /// Deletes messages permanently. With `if_version`, deletes the only message in `uids` if it
    /// has this version.
    ///
    /// # Errors
    /// Returns [`ConditionalError::VersionMismatch`] if the message has another version.
    fn delete_messages(
        &self,
        uids: &[u64],
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError>;

    /// Returns the versions of a message, without reading its texts.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist.
    fn get_version(&self, uid: u64) -> Result<MessageVersion, Error>;

    /// Moves messages to the folder with the role [`Role::Trash`]. With `if_version`, moves the
    /// only message in `uids` if it has this version.
    ///
    /// # Errors
    /// Returns [`ConditionalError::VersionMismatch`] if the message has another version. Returns
    /// [`Error::Conflict`] if no folder has the role.
    fn trash_messages(
        &self,
        uids: &[u64],
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError>;

    /// Moves messages from the folder with the role [`Role::Trash`] to the folder that contained
    /// them before, or to the inbox if that folder does not exist. Skips messages that are not in
    /// Trash.
    ///
    /// # Errors
    /// Returns [`Error::Conflict`] if no folder has the role, or if messages exist but none of them
    /// is in Trash.
    fn restore_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error>;

    /// Copies messages to a folder. Returns the `uid` of each original and of its copy.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist.
    fn copy_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<CopiedMessage>, Error>;

    /// Creates a folder and its missing parents, and subscribes to them. Returns the folder.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if no folder of the mail server can have this path. Returns
    /// [`Error::Conflict`] if the folder exists. Returns [`Error::TooLarge`] if the mailbox has the
    /// maximum number of folders.
    fn create_folder(&self, path: &str) -> Result<Folder, Error>;

    /// Renames a folder with its subfolders, or moves the folder to another parent. The folders
    /// keep their ids, and their messages keep their `uid`.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist. Returns [`Error::Invalid`] if no
    /// folder of the mail server can have the new path. Returns [`Error::Conflict`] if a folder has
    /// the new path, or if the folder or one of its subfolders has a role.
    fn rename_folder(&self, folder: &str, path: &str) -> Result<Folder, Error>;

    /// Deletes a folder.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist. Returns [`Error::Conflict`] if the
    /// folder has a role or subfolders, if it has messages and `messages` is
    /// [`MessageDisposal::Refuse`], or if there is no folder with the role `\Trash`.
    fn delete_folder(&self, folder: &str, messages: MessageDisposal) -> Result<(), Error>;

    /// Returns the quota of the mailbox as the mail server reports it.
    ///
    /// # Errors
    /// Returns an error in the cases that the description of [`Mailbox`] lists.
    fn get_quota(&self) -> Result<Quota, Error>;

    /// Returns a message in its stored form.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist.
    fn get_raw_message(&self, uid: u64) -> Result<RawMessage, Error>;

    /// Returns the header fields of a message with one of these names. Without names, returns all
    /// header fields.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist. Returns [`Error::Invalid`] if a
    /// name is not the name of a header field, or if there are more than 100 names.
    fn get_header(&self, uid: u64, names: Option<&[String]>) -> Result<MessageHeader, Error>;

    /// Returns the messages with these `uid`s, from any folders. Skips every `uid` for which no
    /// message exists. The order is the order of `uids`.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] for more than 100 `uid`s.
    fn get_summaries(&self, uids: &[u64]) -> Result<Vec<Hit>, Error>;

    /// Returns the same messages as [`Mailbox::get_summaries`], in full.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] for more than 20 `uid`s, if the texts of the messages have more
    /// than 8 MiB in total, or if the calls in one request return more than 64 MiB of texts.
    fn get_messages_with_blobs(&self, uids: &[u64]) -> Result<Vec<DetailWithBlobs>, Error>;

    /// Stores a message in a folder without a change of its bytes. Within 24 hours, a repeated call
    /// with the same `key` stores nothing and returns the result of the first call.
    ///
    /// # Errors
    /// Returns an error if the message was not stored, or if the outcome is unknown.
    /// `wit/mailbox.wit` describes each error.
    fn import_message(&self, import: Import, key: Option<&str>) -> Result<ImportedMessage, Error>;

    /// Moves a message to the folder `Snoozed` until a time. If the message is snoozed already,
    /// only the time changes.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist, and [`Error::Invalid`] if the
    /// time is not in the future or is more than 366 days ahead. Returns another error in the cases
    /// that `wit/mailbox.wit` describes.
    fn snooze_message(&self, uid: u64, until: Timestamp) -> Result<(), Error>;

    /// Moves a snoozed message back at once.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist, and [`Error::Conflict`] if the
    /// message is not snoozed.
    fn unsnooze_message(&self, uid: u64) -> Result<(), Error>;

    /// Returns the time at which a message comes back. Returns `None` if the message is not
    /// snoozed.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist.
    fn get_snooze(&self, uid: u64) -> Result<Option<Timestamp>, Error>;
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

    fn get_attachment(&self, uid: u64, index: u32) -> Result<Option<AttachmentContent>, Error> {
        mailbox::get_attachment(uid, index)
    }

    fn create_attachment_link(
        &self,
        uid: u64,
        index: u32,
    ) -> Result<Option<AttachmentLink>, Error> {
        mailbox::create_attachment_link(uid, index)
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

    fn stream_events(
        &self,
        since: Option<&str>,
        filter: &EventFilter,
    ) -> Result<Events, StreamError> {
        mailbox::stream_events(since, filter).map(Events::Host)
    }

    fn wait_for_changes(
        &self,
        since: &str,
        folder: Option<&str>,
        limit: u32,
        seconds: u32,
    ) -> Result<Events, StreamError> {
        mailbox::wait_for_changes(since, folder, limit, seconds).map(Events::Host)
    }

    fn set_flags(
        &self,
        uids: &[u64],
        flags: &[String],
        action: FlagAction,
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError> {
        mailbox::set_flags(uids, flags, action, if_version)
    }

    fn move_messages(
        &self,
        uids: &[u64],
        destination: &str,
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError> {
        mailbox::move_messages(uids, destination, if_version)
    }

    fn delete_messages(
        &self,
        uids: &[u64],
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError> {
        mailbox::delete_messages(uids, if_version)
    }

    fn get_version(&self, uid: u64) -> Result<MessageVersion, Error> {
        mailbox::get_version(uid)
    }

    fn trash_messages(
        &self,
        uids: &[u64],
        if_version: Option<&str>,
    ) -> Result<Vec<u64>, ConditionalError> {
        mailbox::trash_messages(uids, if_version)
    }

    fn restore_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        mailbox::restore_messages(uids)
    }

    fn copy_messages(&self, uids: &[u64], destination: &str) -> Result<Vec<CopiedMessage>, Error> {
        mailbox::copy_messages(uids, destination)
    }

    fn create_folder(&self, path: &str) -> Result<Folder, Error> {
        mailbox::create_folder(path)
    }

    fn rename_folder(&self, folder: &str, path: &str) -> Result<Folder, Error> {
        mailbox::rename_folder(folder, path)
    }

    fn delete_folder(&self, folder: &str, messages: MessageDisposal) -> Result<(), Error> {
        mailbox::delete_folder(folder, messages)
    }

    fn get_quota(&self) -> Result<Quota, Error> {
        mailbox::get_quota()
    }

    fn get_raw_message(&self, uid: u64) -> Result<RawMessage, Error> {
        mailbox::get_raw_message(uid)
    }

    fn get_header(&self, uid: u64, names: Option<&[String]>) -> Result<MessageHeader, Error> {
        mailbox::get_header(uid, names)
    }

    fn get_summaries(&self, uids: &[u64]) -> Result<Vec<Hit>, Error> {
        mailbox::get_summaries(uids)
    }

    fn get_messages_with_blobs(&self, uids: &[u64]) -> Result<Vec<DetailWithBlobs>, Error> {
        mailbox::get_messages_with_blobs(uids)
    }

    fn import_message(&self, import: Import, key: Option<&str>) -> Result<ImportedMessage, Error> {
        mailbox::import_message(
            &import.folder,
            import.message,
            &import.flags,
            import.received_at,
            key,
        )
    }

    fn snooze_message(&self, uid: u64, until: Timestamp) -> Result<(), Error> {
        mailbox::snooze_message(uid, until)
    }

    fn unsnooze_message(&self, uid: u64) -> Result<(), Error> {
        mailbox::unsnooze_message(uid)
    }

    fn get_snooze(&self, uid: u64) -> Result<Option<Timestamp>, Error> {
        mailbox::get_snooze(uid)
    }
}
