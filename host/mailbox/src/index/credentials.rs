//! The interface to the credentials of the search index. Background work has no request, and
//! therefore no credential of a caller.

use std::fmt;

use futures_util::future::BoxFuture;
use latchmail_core::caller::MailCredential;

use crate::error::Error;

/// Provides the credentials of the search index. The crate `latchmail-service` implements this
/// trait with the database. Tests implement this trait with fixed credentials.
pub trait IndexCredentials: fmt::Debug + Send + Sync {
    /// Returns the credential with which the service reads the mailbox of an account. The mail
    /// server accepts the credential over IMAP only. Returns `None` if the account does not exist
    /// or is disabled.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the database fails.
    fn credential<'a>(
        &'a self,
        account: &'a str,
    ) -> BoxFuture<'a, Result<Option<MailCredential>, Error>>;
}
