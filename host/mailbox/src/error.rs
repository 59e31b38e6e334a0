//! The error type of operations on mailboxes.

use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::permissions::{self, Right};

/// The reason why an operation failed. A missing resource is not an error: the operation then
/// returns `Ok(None)`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The mail server rejected the credential.
    #[error("the mail server rejected the credential")]
    CredentialRefused,
    /// The mail server or the database is unreachable or starting, or no connection is free. No
    /// data was changed.
    #[error("the mail server or the database is not available: {0}")]
    Unavailable(String),
    /// The mail server rejected the command. The text comes from the server and can be shown to
    /// users.
    #[error("the mail server rejected the command: {0}")]
    Rejected(String),
    /// A change has started and its outcome is unknown.
    #[error("the outcome of a change is unknown: {0}")]
    Unknown(String),
    /// The member can see the folder but does not have this right on the folder.
    #[error("{}", permissions::lacking(*.0))]
    Denied(Right),
    /// The message or the mailbox exceeds a size limit.
    #[error("{0}")]
    TooLarge(Problem),
    /// The search query is invalid. The text can be shown to users.
    #[error("{0}")]
    InvalidQuery(String),
    /// The cursor of a listing is malformed, or belongs to another mailbox, to another folder or to
    /// other filters.
    #[error("Invalid cursor")]
    InvalidCursor,
    /// The cursor of the change log is expired, unknown, or belongs to another mailbox or folder.
    #[error("cursor expired")]
    CursorExpired,
    /// The search index of the account is disabled or being built, and the operation needs the
    /// search index.
    #[error("the search index is disabled or being built")]
    IndexNotReady,
    /// The mail server, the database or the search index failed, or the mail server's reply was
    /// invalid.
    #[error("mailbox error: {0}")]
    Internal(String),
}

impl From<latchmail_directory::Error> for Error {
    fn from(error: latchmail_directory::Error) -> Self {
        match error {
            latchmail_directory::Error::Unknown(_) => Self::Unknown(error.to_string()),
            error if error.is_unavailable() => Self::Unavailable(error.to_string()),
            error => Self::Internal(error.to_string()),
        }
    }
}

impl From<latchmail_imap::Error> for Error {
    fn from(error: latchmail_imap::Error) -> Self {
        match error {
            latchmail_imap::Error::Refused => Self::CredentialRefused,
            latchmail_imap::Error::Unavailable(why) => Self::Unavailable(why),
            latchmail_imap::Error::Lost(_) => Self::Unavailable(error.to_string()),
            latchmail_imap::Error::TooManyFolders => {
                Self::TooLarge(Problem::new(codes::TOO_MANY_FOLDERS, error.to_string()))
            }
            // Dovecot 2.3 returns this text without a code if another client deletes the open
            // folder.
            latchmail_imap::Error::No(text) if text.contains("deleted under us") => {
                Self::Unavailable(text)
            }
            latchmail_imap::Error::No(_)
            | latchmail_imap::Error::Protocol(_)
            | latchmail_imap::Error::MissingExtension(_) => Self::Internal(error.to_string()),
        }
    }
}
