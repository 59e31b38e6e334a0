//! Between the host's types and the generated ones.

use http::StatusCode;
use latchmail_bindings::latchmail::host::types as wit;

use super::Call;
use crate::caller::Scope;
use crate::error::Failure;
use crate::mail;

impl wit::Host for Call {}

/// A scope, on its way into a sandbox.
pub(super) fn scope(scope: Scope) -> wit::Scope {
    match scope {
        Scope::MailRead => wit::Scope::MailRead,
        Scope::MailSend => wit::Scope::MailSend,
        Scope::MailWrite => wit::Scope::MailWrite,
        Scope::AliasesRead => wit::Scope::AliasesRead,
        Scope::AliasesWrite => wit::Scope::AliasesWrite,
        Scope::ProfileRead => wit::Scope::ProfileRead,
    }
}

/// A scope, on its way out of a sandbox.
pub(crate) fn held(scope: wit::Scope) -> Scope {
    match scope {
        wit::Scope::MailRead => Scope::MailRead,
        wit::Scope::MailSend => Scope::MailSend,
        wit::Scope::MailWrite => Scope::MailWrite,
        wit::Scope::AliasesRead => Scope::AliasesRead,
        wit::Scope::AliasesWrite => Scope::AliasesWrite,
        wit::Scope::ProfileRead => Scope::ProfileRead,
    }
}

/// What `auth` says to a client is fit to be shown where it is the client's to mend; anything else is the host's, and logged here, once.
impl From<Failure> for wit::Error {
    fn from(failure: Failure) -> Self {
        match failure.status {
            StatusCode::BAD_REQUEST => Self::Invalid(failure.text.into_owned()),
            StatusCode::UNAUTHORIZED => Self::CredentialRefused,
            _ => {
                tracing::error!("the account could not be read or changed: {failure}");
                Self::Internal
            }
        }
    }
}

/// Only the name of a failure enters a sandbox; what lies behind it is logged here, once.
impl From<mail::Error> for wit::Error {
    fn from(error: mail::Error) -> Self {
        match error {
            mail::Error::CredentialRefused => Self::CredentialRefused,
            mail::Error::Unavailable(detail) => {
                tracing::warn!("the mail server is not available: {detail}");
                Self::Unavailable
            }
            mail::Error::Denied(_) => Self::Denied(error.to_string()),
            mail::Error::TooLarge(sentence) => Self::TooLarge(sentence),
            mail::Error::Rejected(sentence) => Self::Rejected(sentence),
            mail::Error::Unknown(detail) => {
                tracing::error!("the outcome of a change is not known: {detail}");
                Self::OutcomeUnknown
            }
            mail::Error::Internal(detail) => {
                tracing::error!("the mailbox failed: {detail}");
                Self::Internal
            }
        }
    }
}
