//! The account of a caller with a web session, for host functions that change the account.

use std::sync::Arc;

use latchmail_accounts::auth::Auth;
use latchmail_accounts::auth::account::{Confirmation, Session};
use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::{MailCredential, Origin};
use latchmail_core::codes;
use latchmail_core::error::{Failure, Kind};
use secrecy::SecretString;

use super::convert::account_error;

/// The account of a caller with a web session.
pub(super) struct SessionAccount {
    pub(super) auth: Arc<Auth>,
    /// The id of the account.
    pub(super) id: String,
    pub(super) address: String,
    pub(super) sid: String,
    /// The credential with which the session accesses the mail server.
    pub(super) mail: MailCredential,
    /// The two-factor code of this request, which the module passed to the host.
    pub(super) code: Option<SecretString>,
    pub(super) origin: Origin,
}

impl SessionAccount {
    pub(super) fn session(&self) -> Session<'_> {
        Session {
            account: &self.id,
            sid: &self.sid,
        }
    }

    /// Returns the session, the password and the two-factor code that confirm a change of the
    /// account.
    pub(super) fn confirmation(&self, password: SecretString) -> Confirmation<'_> {
        Confirmation {
            session: self.session(),
            password,
            code: self.code.as_ref(),
        }
    }
}

/// Converts the failure of an operation that checks a password. If a rate limit is exceeded (429)
/// or if a two-factor code is missing (401), the failure ends the call. The client receives the
/// failure instead of a response of the module.
pub(super) fn password_error<E>(failure: Failure) -> HostError<E>
where
    HostError<E>: From<Error>,
{
    if matches!(failure.kind, Kind::RateLimited(_))
        || failure.code == codes::TWO_FACTOR_CODE_REQUIRED
    {
        HostError::trap(failure)
    } else {
        account_error(failure).into()
    }
}
