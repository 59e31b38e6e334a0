//! The interface to the credentials of the search index. Background work has no request, so it
//! cannot use the credential of a caller.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use latchmail_core::caller::MailCredential;

use crate::access::Access;
use crate::error::Error;
use crate::mail::Mail;

/// Provides the credentials of the search index. The crate `latchmail-service` implements this
/// trait with the directory. Tests implement it with fixed credentials.
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

impl Mail {
    /// Sets the source of the credentials of the search index. Only the first call has an effect.
    pub fn set_index_credentials(&self, credentials: Arc<dyn IndexCredentials>) {
        // A second call is an error of the service. The first source remains valid.
        let _ = self.index_credentials.set(credentials);
    }

    /// Returns the access with which the service reads the mailbox of an account in the background.
    /// Returns `None` if the account does not exist or is disabled, or if no source of credentials
    /// is set.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the database fails.
    pub async fn index_access(&self, account: &str) -> Result<Option<Access>, Error> {
        let Some(credentials) = self.index_credentials.get() else {
            return Ok(None);
        };
        let credential = credentials.credential(account).await?;
        Ok(credential.map(|credential| Access {
            account: account.to_owned(),
            credential,
            member: None,
        }))
    }
}
