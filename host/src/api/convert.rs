//! Between the host's types and the generated ones.

use latchmail_bindings::latchmail::host::types as wit;

use super::Call;
use crate::caller::Scope;
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

/// Only the name of a failure enters a sandbox; what lies behind it is logged here, once.
impl From<mail::Error> for wit::Error {
    fn from(error: mail::Error) -> Self {
        match error {
            mail::Error::CredentialRefused => Self::CredentialRefused,
            mail::Error::Unavailable(detail) => {
                tracing::warn!("the mail server is not available: {detail}");
                Self::Unavailable
            }
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
