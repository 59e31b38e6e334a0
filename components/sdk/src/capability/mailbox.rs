//! `latchmail:host/mailbox`: reading and changing the caller's mail.

use super::{Blob, Error, Host};
use crate::bindings::latchmail::host::mailbox;
pub use crate::bindings::latchmail::host::mailbox::{
    Address, Attachment, Authentication, Detail, FlagAction, Folder, Listing, Page, Role, Summary,
    Verdict,
};

/// The caller's mail. Reading needs the scope `mail:read`, changes need `mail:write`.
///
/// Every function can return `CredentialRefused`, `Unavailable`, `Denied` or `Internal`. A function that changes something can also return `Rejected` and
/// `OutcomeUnknown`. A function that changes messages skips each `uid` that does not exist, and returns the `uid`s that exist.
pub trait Mailbox {
    /// Returns all folders: first the folders with a role, in the order of [`Role`], then the other folders, sorted by path.
    ///
    /// # Errors
    /// Returns only the errors that the description of the trait lists.
    fn list_folders(&self) -> Result<Vec<Folder>, Error>;

    /// Returns a page of a folder's messages, newest first.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist, and [`Error::Invalid`] if the limit is not 1 to 100.
    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error>;

    /// Returns a message of any folder by its `uid`.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist.
    fn get_message(&self, uid: u64) -> Result<Detail, Error>;

    /// Returns an attachment by the message's `uid` and the attachment's index. Returns `None` if the message exists and the attachment
    /// does not.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist, and [`Error::TooLarge`] if the attachment is beyond the part of the
    /// message that the host reads.
    fn get_attachment(&self, uid: u64, index: u32) -> Result<Option<(Attachment, Blob)>, Error>;

    /// Returns a page of a folder's messages that contain `term` in the subject, sender, recipients or body, newest first. Case is ignored.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist. Returns [`Error::Invalid`] if the term is empty, is longer than 1,000 bytes or contains
    /// control characters, or if the limit is not 1 to 100.
    fn search_messages(&self, folder: &str, term: &str, page: Page) -> Result<Listing, Error>;

    /// Adds or removes flags.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if clients cannot set one of the flags.
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
    /// Returns only the errors that the description of the trait lists.
    fn delete_messages(&self, uids: &[u64]) -> Result<Vec<u64>, Error>;
}

impl Mailbox for Host {
    fn list_folders(&self) -> Result<Vec<Folder>, Error> {
        mailbox::list_folders()
    }

    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error> {
        mailbox::list_messages(folder, page)
    }

    fn get_message(&self, uid: u64) -> Result<Detail, Error> {
        mailbox::get_message(uid)
    }

    fn get_attachment(&self, uid: u64, index: u32) -> Result<Option<(Attachment, Blob)>, Error> {
        let found = mailbox::get_attachment(uid, index)?;
        Ok(found.map(|found| (found.attachment, Blob::Host(found.content))))
    }

    fn search_messages(&self, folder: &str, term: &str, page: Page) -> Result<Listing, Error> {
        mailbox::search_messages(folder, term, page)
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
