//! `latchmail:host/outbox`: sending mail as the caller.

use super::{Blob, Error, Host};
use crate::bindings::latchmail::host::outbox;
pub use crate::bindings::latchmail::host::outbox::{
    Draft, File, FileSource, Header, MessagePart, Original, SendError, Sent, UploadedFile,
};

/// Sends mail as the caller. Needs the scope `mail:send`.
pub trait Outbox {
    /// Sends a message to all recipients or to no recipient, and stores a copy in Sent. Within 24
    /// hours, a repeated call with the same `key` sends nothing and returns the result of the first
    /// call. A file from a message also needs the scope `mail:read`.
    ///
    /// # Errors
    /// Returns an error if the message was not sent, or if the outcome is unknown. `wit/outbox.wit`
    /// describes each error.
    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, SendError>;

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
}

impl Outbox for Host {
    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, SendError> {
        outbox::send(draft, key)
    }

    fn upload(
        &self,
        filename: &str,
        content_type: &str,
        content: Blob,
    ) -> Result<UploadedFile, Error> {
        outbox::upload(filename, content_type, content)
    }
}

impl From<Error> for SendError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
