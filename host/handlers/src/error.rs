//! The error type of this crate.

use latchmail_core::error::Failure;

/// The reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The module or the account does not exist, or the module is not enabled for the mailbox. The
    /// text is for the operator.
    #[error("{0}")]
    NotFound(String),
    /// The mailbox cannot be read.
    #[error("{0}")]
    Mailbox(#[from] latchmail_mailbox::Error),
    /// The database failed.
    #[error("{0}")]
    Failed(#[from] Failure),
}

impl From<latchmail_directory::Error> for Error {
    fn from(error: latchmail_directory::Error) -> Self {
        Self::Failed(error.into())
    }
}
