//! The result of an import.

use latchmail_core::error::Problem;
use latchmail_core::message_number::MessageNumber;

use crate::error::Error as MailboxError;

/// A message that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The number of the message.
    pub number: MessageNumber,
    /// The path of the folder.
    pub folder: String,
    /// `true` if an earlier request with the same idempotency key stored the message.
    pub replayed: bool,
}

/// The reason why a message was not stored, or might not have been stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The message cannot be stored.
    #[error("{0}")]
    Invalid(Problem),
    /// The message is larger than [`super::MAX_SIZE`].
    #[error("the message exceeds the 50 MiB limit")]
    TooLarge,
    /// The idempotency key was used for another message, or a request with the key is in progress.
    ///
    #[error("{0}")]
    Conflict(Problem),
    /// An operation on the mailbox failed.
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
}

impl From<latchmail_directory::Error> for Error {
    fn from(error: latchmail_directory::Error) -> Self {
        Self::Mailbox(error.into())
    }
}
