//! `latchmail:host/outbox`: sending mail as the caller.

use super::{Blob, Error, Host, Timestamp};
use crate::bindings::latchmail::host::outbox;
pub use crate::bindings::latchmail::host::outbox::{
    Draft, Entry as OutboxEntry, File, FileSource, Header, MessagePart, Original, SendError,
    SendOptions, Sent, UploadedContent, UploadedFile,
};

/// Sends mail as the caller. Needs the scope `mail:send`.
pub trait Outbox {
    /// Sends a message to all recipients or to no recipient, and stores a copy in Sent. With a time
    /// in `options`, the message leaves later. Within 24 hours, a repeated call with the same key
    /// sends nothing and returns the result of the first call. A file from a message also needs the
    /// scope `mail:read`.
    ///
    /// # Errors
    /// Returns an error if the message was not sent, or if the outcome is unknown. `wit/outbox.wit`
    /// describes each error.
    fn send(&self, draft: Draft, options: &SendOptions) -> Result<Sent, SendError>;

    /// Stores a file for later messages. The file expires after one hour.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the name or the media type is invalid. Returns
    /// [`Error::TooLarge`] if the file has more than 25 MiB, or if the account's files together
    /// would have more than 100 MiB.
    fn upload(
        &self,
        filename: &str,
        content_type: &str,
        content: Blob,
    ) -> Result<UploadedFile, Error>;

    /// Returns a file that the account uploaded. Needs the scope `mail:send` or `mail:write`.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the file does not exist or is expired.
    fn get_upload(&self, id: &str) -> Result<UploadedContent, Error>;

    /// Returns at most `limit` messages in the outbox: first those that wait, by their times, then
    /// the others, newest outcome first. Needs the scope `mail:read`.
    ///
    /// # Errors
    /// Returns an error without the scope.
    fn list_entries(&self, limit: u32) -> Result<Vec<OutboxEntry>, Error>;

    /// Returns a message in the outbox. Needs the scope `mail:read`.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such message.
    fn get_entry(&self, id: &str) -> Result<OutboxEntry, Error>;

    /// Changes the time at which a message leaves.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such message. Returns [`Error::Conflict`] if the
    /// message is not scheduled any longer. Returns [`Error::Invalid`] if the time is more than a
    /// year ahead.
    fn reschedule_entry(&self, id: &str, send_at: Timestamp) -> Result<OutboxEntry, Error>;

    /// Cancels a message.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such message. Returns [`Error::Conflict`] if the
    /// message is not scheduled any longer.
    fn cancel_entry(&self, id: &str) -> Result<(), Error>;
}

impl Outbox for Host {
    fn send(&self, draft: Draft, options: &SendOptions) -> Result<Sent, SendError> {
        outbox::send(draft, options)
    }

    fn upload(
        &self,
        filename: &str,
        content_type: &str,
        content: Blob,
    ) -> Result<UploadedFile, Error> {
        outbox::upload(filename, content_type, content)
    }

    fn get_upload(&self, id: &str) -> Result<UploadedContent, Error> {
        outbox::get_upload(id)
    }

    fn list_entries(&self, limit: u32) -> Result<Vec<OutboxEntry>, Error> {
        outbox::list_entries(limit)
    }

    fn get_entry(&self, id: &str) -> Result<OutboxEntry, Error> {
        outbox::get_entry(id)
    }

    fn reschedule_entry(&self, id: &str, send_at: Timestamp) -> Result<OutboxEntry, Error> {
        outbox::reschedule_entry(id, send_at)
    }

    fn cancel_entry(&self, id: &str) -> Result<(), Error> {
        outbox::cancel_entry(id)
    }
}

impl From<Error> for SendError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
