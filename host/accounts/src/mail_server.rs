//! The operations of the mail server that authentication and shared mailboxes need.

use std::fmt;

use futures_util::future::BoxFuture;
use latchmail_core::caller::MailCredential;

/// The mail server. The service implements it with its mailboxes; tests implement it without a network.
pub trait MailServer: fmt::Debug + Send + Sync {
    /// Checks that the mail server accepts connections.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if it does not.
    fn ping(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Ends the sessions of revoked app passwords, given by their ids. These are sessions of mail clients and of the service. Does not fail if a session cannot be
    /// ended.
    fn end_sessions<'a>(&'a self, app_passwords: &'a [String]) -> BoxFuture<'a, ()>;

    /// Closes the service's connections of a credential, given by its id.
    fn close_connections(&self, credential: &str);

    /// Returns the UIDVALIDITY of the folder with an id in the mailbox of an account, or `None` if there is no such folder.
    ///
    /// # Errors
    /// Returns any [`Error`].
    fn folder_uid_validity<'a>(
        &'a self,
        account: &'a str,
        credential: MailCredential,
        folder: &'a str,
    ) -> BoxFuture<'a, Result<Option<u32>, Error>>;
}

/// The reason why an operation of the mail server failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The mail server rejected the credential.
    #[error("the mail server rejected the credential")]
    CredentialRefused,
    /// The mail server is unreachable or starting.
    #[error("the mail server is not available: {0}")]
    Unavailable(String),
    /// The mail server rejected the command. The text is the server's and can be shown to users.
    #[error("the mail server rejected the command: {0}")]
    Rejected(String),
    /// The operation failed for another reason.
    #[error("{0}")]
    Internal(String),
}
