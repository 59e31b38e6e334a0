//! The error type of the steps of an export.

use std::io;

use latchmail_core::error::Failure;

/// The reason why a step of an export failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The export cannot be completed. The text is for the account.
    #[error("{0}")]
    Final(&'static str),
    /// The mailbox cannot be read.
    #[error("{0}")]
    Mailbox(#[from] latchmail_mailbox::Error),
    /// A file cannot be read or written.
    #[error("a file of the export failed: {0}")]
    Io(#[from] io::Error),
    /// The database failed.
    #[error("{0}")]
    Failed(#[from] Failure),
}

impl From<latchmail_directory::Error> for Error {
    fn from(error: latchmail_directory::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<zip::result::ZipError> for Error {
    fn from(error: zip::result::ZipError) -> Self {
        match error {
            zip::result::ZipError::Io(error) => Self::Io(error),
            error => Self::Io(io::Error::other(error)),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Io(error.into())
    }
}
