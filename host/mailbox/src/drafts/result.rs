//! The error type of drafts.

use crate::error::Error as MailboxError;
use crate::outbox::Error as OutboxError;

/// The reason why an operation on a draft failed. A missing draft is not an error: the operation
/// then returns `Ok(None)`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The draft has another version than the caller expects, or another client has changed the
    /// draft during the operation. Nothing was changed.
    #[error("the draft has changed")]
    VersionMismatch,
    /// The draft cannot be sent, because this field is missing or invalid.
    #[error("the field {0} of the draft is missing or invalid")]
    Unfinished(&'static str),
    /// The content of the draft is invalid, or the draft was not sent.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// An operation on the mailbox failed.
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
}

impl From<latchmail_imap::Error> for Error {
    fn from(error: latchmail_imap::Error) -> Self {
        Self::Mailbox(error.into())
    }
}

impl From<latchmail_directory::Error> for Error {
    fn from(error: latchmail_directory::Error) -> Self {
        Self::Mailbox(error.into())
    }
}

/// Returns the error for a computation that failed.
pub(super) fn internal(why: String) -> Error {
    MailboxError::Internal(why).into()
}
