//! The error type of operations on mailboxes.

use latchmail_core::error::Problem;
use latchmail_core::permissions::{self, Right};
use latchmail_core::{Code, codes};

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
    /// The policy of the grant does not allow the operation. The text can be shown to users.
    #[error("{0}")]
    Policy(Problem),
    /// The message or the mailbox exceeds a size limit.
    #[error("{0}")]
    TooLarge(Problem),
    /// The mailbox is full: its quota does not permit another message. The mail server stored
    /// nothing.
    #[error("the mailbox is full")]
    OverQuota,
    /// No folder can have this path, or the mail server refuses the path.
    #[error("Invalid folder path")]
    InvalidFolderPath,
    /// The folder cannot be created, renamed or deleted. The text can be shown to users.
    #[error("{0}")]
    Folder(#[from] FolderConflict),
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
    /// The message does not have the version that the caller expects. No message was changed.
    #[error("the message has changed")]
    MessageChanged,
    /// No folder of the mailbox has the role `\Trash`.
    #[error("There is no Trash folder")]
    NoTrashFolder,
    /// The messages are not in the folder with the role `\Trash`.
    #[error("The message is not in Trash")]
    NotInTrash,
    /// The message is not in the folder for snoozed messages, or another client put it there.
    #[error("The message is not snoozed")]
    NotSnoozed,
    /// The time at which a message comes back is out of range.
    #[error("until must be in the future and at most a year ahead")]
    InvalidSnoozeTime,
    /// The owner suspended or ended the grant while the request waited. Nothing was changed.
    #[error("This grant is suspended")]
    Suspended,
    /// The mail server, the database or the search index failed, or the mail server's reply was
    /// invalid.
    #[error("mailbox error: {0}")]
    Internal(String),
}

/// The reason why a folder cannot be created, renamed or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FolderConflict {
    /// A folder has the path.
    #[error("Folder already exists")]
    Exists,
    /// The folder is the inbox, or the folder or one of its subfolders has a role.
    #[error("This folder has a role and cannot be changed")]
    HasRole,
    /// The folder contains messages.
    #[error("Folder is not empty")]
    NotEmpty,
    /// The folder has subfolders.
    #[error("Folder has subfolders")]
    HasSubfolders,
    /// The mailbox has no folder with the role `\Trash`.
    #[error("There is no Trash folder")]
    NoTrash,
}

impl FolderConflict {
    /// Returns the error code.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Exists => codes::FOLDER_EXISTS,
            Self::HasRole => codes::FOLDER_HAS_ROLE,
            Self::NotEmpty => codes::FOLDER_NOT_EMPTY,
            Self::HasSubfolders => codes::FOLDER_HAS_SUBFOLDERS,
            Self::NoTrash => codes::NO_TRASH_FOLDER,
        }
    }
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
            latchmail_imap::Error::OverQuota => Self::OverQuota,
            latchmail_imap::Error::TooManyFolders => {
                Self::TooLarge(Problem::new(codes::TOO_MANY_FOLDERS, error.to_string()))
            }
            error if error.is_deleted_folder() => Self::Unavailable(error.to_string()),
            latchmail_imap::Error::No(_)
            | latchmail_imap::Error::Protocol(_)
            | latchmail_imap::Error::MissingExtension(_) => Self::Internal(error.to_string()),
        }
    }
}

/// Logs a failure to store the outcome of a send or an import. The client gets the outcome despite
/// the failure. The stored state never describes a step that has not happened.
pub(crate) fn log_failure(stored: Result<(), latchmail_directory::Error>) {
    if let Err(error) = stored {
        tracing::error!(%error, "failed to store the outcome of a send or an import");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changing::commands::change_error;

    #[test]
    fn a_change_in_a_folder_that_another_client_deletes_can_be_repeated() {
        for text in [
            "Mailbox was deleted under us (0.001 + 0.000 secs).",
            "Mailbox doesn't exist: Work (0.001 + 0.000 secs).",
        ] {
            let error = change_error(latchmail_imap::Error::No(text.into()));
            assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
        }
        let refused = change_error(latchmail_imap::Error::No("Invalid keyword".into()));
        assert!(matches!(refused, Error::Rejected(_)), "{refused:?}");
    }
}
