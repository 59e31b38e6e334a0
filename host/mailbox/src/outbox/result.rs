//! The result of sending a message.

use crate::error::Error as MailboxError;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::{Failure, Kind, Problem};

/// A message that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The Message-ID with angle brackets.
    pub message_id: String,
    /// The folder that contains the copy. `None` if no copy was stored.
    pub saved_to: Option<String>,
    /// `true` if an earlier request with the same idempotency key sent the message.
    pub replayed: bool,
    /// The entry in the outbox if the message leaves later.
    pub scheduled: Option<Scheduled>,
    /// The id of the hold if the message waits for a decision of the owner.
    pub hold: Option<String>,
}

impl Sent {
    /// Returns the result for a message that waits for a decision of the owner.
    pub(crate) fn held(message_id: String, hold: String, replayed: bool) -> Self {
        Self {
            message_id,
            saved_to: None,
            replayed,
            scheduled: None,
            hold: Some(hold),
        }
    }
}

/// A message that leaves later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The id of the entry in the outbox.
    pub id: String,
    /// The time at which the message leaves.
    pub send_at: Timestamp,
}

/// The reason why a message was not sent, or might not have been sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller is not allowed to use the sender address. The text can be shown to users.
    #[error("{0}")]
    Denied(Problem),
    /// The draft contains an invalid value.
    #[error("{0}")]
    Invalid(Problem),
    /// The finished message exceeds 25 MB.
    #[error("the message exceeds the 25 MB limit")]
    TooLarge,
    /// The source of the file with this index does not exist, or the caller must not learn that the
    /// source exists.
    #[error("the source of file {0} does not exist")]
    FileNotFound(usize),
    /// An upload exceeds its maximum size.
    #[error("An upload must be at most 25 MB")]
    UploadTooLarge,
    /// All uploads of the account together would exceed their maximum size.
    #[error("The uploads of the account exceed 100 MB")]
    UploadsFull,
    /// The outbox of the account contains the maximum number or size of messages.
    #[error("The outbox of the account is full")]
    OutboxFull,
    /// The mail server rejected a recipient or the message. The text contains the address of the
    /// rejected recipient and the mail server's reply. The text can be shown to users.
    #[error("the mail server rejected the message: {0}")]
    Rejected(String),
    /// The idempotency key was used for another message, or a request with the key is in progress.
    /// The text can be shown to users.
    #[error("{0}")]
    Conflict(Problem),
    /// The mail server rejected the credential.
    #[error("the mail server rejected the credential")]
    CredentialRefused,
    /// The mail server rejected the message temporarily, or the mail server or the database is
    /// unreachable. The message was not sent.
    #[error("the mail server or the database is not available: {0}")]
    Unavailable(String),
    /// The server closed the connection. The message was not sent.
    #[error("the connection was closed: {0}")]
    Lost(String),
    /// It is unknown whether the message was sent.
    #[error("it is unknown whether the message was sent: {0}")]
    Unknown(String),
    /// An internal error occurred. The message was not sent.
    #[error("sending failed: {0}")]
    Internal(String),
}

/// Returns the error for an invalid value of a draft.
pub(crate) fn invalid(what: &str) -> Error {
    Error::Invalid(Problem::new(
        codes::INVALID_DRAFT,
        format!("Invalid {what}"),
    ))
}

impl From<MailboxError> for Error {
    fn from(error: MailboxError) -> Self {
        match error {
            MailboxError::CredentialRefused => Self::CredentialRefused,
            MailboxError::Unavailable(why) => Self::Unavailable(why),
            MailboxError::TooLarge(problem) if problem.code == codes::JOURNAL_FULL => {
                Self::Denied(problem)
            }
            MailboxError::TooLarge(_) => Self::TooLarge,
            MailboxError::Policy(problem) => Self::Denied(problem),
            MailboxError::Suspended => {
                Self::Denied(Problem::new(codes::GRANT_SUSPENDED, error.to_string()))
            }
            other => Self::Internal(other.to_string()),
        }
    }
}

impl From<latchmail_dkim::Error> for Error {
    fn from(error: latchmail_dkim::Error) -> Self {
        match error {
            latchmail_dkim::Error::Directory(error) => error.into(),
            error => Self::Internal(error.to_string()),
        }
    }
}

impl From<latchmail_directory::Error> for Error {
    fn from(error: latchmail_directory::Error) -> Self {
        if error.is_unavailable() {
            return Self::Unavailable(error.to_string());
        }
        Self::Internal(error.to_string())
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        if failure.kind == Kind::Unavailable {
            return Self::Unavailable(failure.text.into_owned());
        }
        let cause = failure.cause.map(|cause| cause.to_string());
        Self::Internal(cause.unwrap_or_else(|| failure.text.into_owned()))
    }
}
