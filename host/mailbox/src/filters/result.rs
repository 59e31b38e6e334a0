//! The error type of vacation responses and rules.

use latchmail_core::error::Problem;
use latchmail_shape::filters::Invalid;

use crate::connections::server_text::sanitize;
use crate::outbox;

/// The reason why the vacation response and the rules could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The mail server does not support scripts, or no `ManageSieve` server is configured.
    #[error("This mail server does not support vacation responses and rules")]
    Unsupported,
    /// The state does not have the version that the caller expects. Nothing was changed.
    #[error("The vacation response or the rules have changed")]
    VersionMismatch,
    /// A value is invalid. The text can be shown to users.
    #[error("{0}")]
    Invalid(Problem),
    /// The script of another client prevents the change. The text can be shown to users.
    #[error("{0}")]
    Conflict(Problem),
    /// Only the owner of a mailbox can make the change. The text can be shown to users.
    #[error("{0}")]
    OwnerOnly(&'static str),
    /// The script would be too large.
    #[error("The vacation response and the rules are too large")]
    TooLarge,
    /// The operation failed for another reason.
    #[error(transparent)]
    Mailbox(#[from] crate::Error),
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(Problem::new(invalid.code, invalid.text))
    }
}

/// Converts an error of sending a code.
impl From<outbox::Error> for Error {
    fn from(error: outbox::Error) -> Self {
        use outbox::Error as Outbox;
        Self::Mailbox(match error {
            Outbox::Denied(why) | Outbox::Invalid(why) => return Self::Invalid(why),
            Outbox::Rejected(text) => crate::Error::Rejected(text),
            Outbox::CredentialRefused => crate::Error::CredentialRefused,
            Outbox::Unavailable(why) | Outbox::Lost(why) => crate::Error::Unavailable(why),
            Outbox::Unknown(why) => crate::Error::Unknown(why),
            other => crate::Error::Internal(other.to_string()),
        })
    }
}

/// Converts an error before a change.
impl From<latchmail_sieve::Error> for Error {
    fn from(error: latchmail_sieve::Error) -> Self {
        use latchmail_sieve::Error as Sieve;
        Self::Mailbox(match error {
            Sieve::Refused => crate::Error::CredentialRefused,
            Sieve::Unavailable(why) => crate::Error::Unavailable(why),
            Sieve::Rejected(text) => crate::Error::Rejected(sanitize(&text)),
            Sieve::OverQuota => crate::Error::OverQuota,
            Sieve::Protocol(_) => crate::Error::Internal(error.to_string()),
        })
    }
}

/// Converts an error of a change that the mail server may have made.
pub(super) fn change_error(error: latchmail_sieve::Error) -> Error {
    use latchmail_sieve::Error as Sieve;
    match error {
        Sieve::Unavailable(_) | Sieve::Protocol(_) => {
            Error::Mailbox(crate::Error::Unknown(error.to_string()))
        }
        error => error.into(),
    }
}
