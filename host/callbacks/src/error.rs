//! The error type of operations on webhooks.

use latchmail_core::error::{Failure, Problem};

/// The reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The webhook, the delivery or the folder does not exist, or is not visible to the caller.
    #[error("not found")]
    NotFound,
    /// A value is invalid. The text is for the caller.
    #[error("{0}")]
    Invalid(Problem),
    /// The webhook or the delivery has another state, or there are too many webhooks. The text is
    /// for the caller.
    #[error("{0}")]
    Conflict(Problem),
    /// The caller's credential cannot have webhooks. The text is for the caller.
    #[error("{0}")]
    Denied(Problem),
    /// The mailbox cannot be read.
    #[error("{0}")]
    Mailbox(#[from] latchmail_mailbox::Error),
    /// The database or the encryption failed.
    #[error("{0}")]
    Failed(#[from] Failure),
}

impl From<latchmail_directory::Error> for Error {
    fn from(error: latchmail_directory::Error) -> Self {
        Self::Failed(error.into())
    }
}
