//! `latchmail:host/mailbox`: reading and changing the caller's mail.

use super::{Blob, Error, Host};
use crate::bindings::latchmail::host::mailbox;
pub use crate::bindings::latchmail::host::mailbox::{
    Address, Attachment, Authentication, Detail, FlagAction, Folder, Listing, Page, Role, Summary,
    Verdict,
};

/// A message whose texts stay with the host.
#[derive(Debug)]
pub struct DetailWithBlobs {
    /// The message. Its fields `text` and `html` are `None`.
    pub detail: Detail,
    /// The plain text. `None` if the message has no plain text.
    pub text: Option<Blob>,
    /// The HTML. `None` if the message has no HTML. The HTML comes from the sender: treat it as hostile.
    pub html: Option<Blob>,
}

/// The caller's mail. Functions that read mail need the scope `mail:read`. Functions that change mail need the scope `mail:write`.
///
/// Every function can return these errors:
///
/// - [`Error::CredentialRefused`] if the mail server rejects the caller's credential;
/// - [`Error::Unavailable`] if the mail server is not available;
/// - [`Error::Denied`] if the caller lacks the permission;
/// - [`Error::Internal`] if the host fails.
///
/// A function that changes mail can also return [`Error::Rejected`] if the mail server refuses the change, and [`Error::OutcomeUnknown`] if the outcome is
/// unknown. A function that changes mail skips every `uid` for which no message exists. The function returns the `uid`s that were not skipped.
pub trait Mailbox {
    /// Returns all folders. The folders with a role are first, in the order of [`Role`]. The other folders are sorted by path.
    ///
    /// # Errors
    /// Returns an error in the cases that the description of [`Mailbox`] lists.
    fn list_folders(&self) -> Result<Vec<Folder>, Error>;

    /// Returns a page of a folder's messages, newest first.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist. Returns [`Error::Invalid`] if the limit is not 1 to 100.
    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error>;

    /// Returns a message of any folder by its `uid`.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist.
    fn get_message(&self, uid: u64) -> Result<Detail, Error>;

    /// Returns the same message as [`Mailbox::get_message`], but its texts are blobs. This function is faster for a module that only passes the texts on with
    /// [`Reply::json_with_texts`](crate::Reply::json_with_texts).
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist. Returns [`Error::TooLarge`] if the calls in one request return more than 64 MiB of texts.
    fn get_message_with_blobs(&self, uid: u64) -> Result<DetailWithBlobs, Error> {
        let mut detail = self.get_message(uid)?;
        let blob = |text: String| Blob::Bytes(text.into());
        Ok(DetailWithBlobs {
            text: detail.text.take().map(blob),
            html: detail.html.take().map(blob),
            detail,
        })
    }

    /// Returns an attachment of the message `uid`. Returns `None` if the message exists but has no attachment with this index.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the message does not exist. Returns [`Error::TooLarge`] if the attachment is in the part of the message that the host
    /// does not read.
    fn get_attachment(&self, uid: u64, index: u32) -> Result<Option<(Attachment, Blob)>, Error>;

    /// Returns a page of the messages in a folder that contain `term`, newest first. The search covers subject, sender, recipients and body. Case is ignored.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist. Returns [`Error::Invalid`] if the limit is not 1 to 100. Also returns [`Error::Invalid`] if
    /// the term is empty, is longer than 1,000 bytes or contains control characters.
    fn search_messages(&self, folder: &str, term: &str, page: Page) -> Result<Listing, Error>;

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

    fn list_messages(&self, folder: &str, page: Page) -> Result<Listing, Error> {
        mailbox::list_messages(folder, page)
    }

    fn get_message(&self, uid: u64) -> Result<Detail, Error> {
        mailbox::get_message(uid)
    }

    fn get_message_with_blobs(&self, uid: u64) -> Result<DetailWithBlobs, Error> {
        let message = mailbox::get_message_with_blobs(uid)?;
        Ok(DetailWithBlobs {
            detail: message.detail,
            text: message.text.map(Blob::Host),
            html: message.html.map(Blob::Host),
        })
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
