//! The interface to the mail server for authentication and shared mailboxes.

use std::fmt;

use futures_util::future::BoxFuture;
use latchmail_core::caller::MailCredential;

/// The mail server. The crate `latchmail-service` implements this trait with a real mail server.
/// Tests implement this trait without a network.
pub trait MailServer: fmt::Debug + Send + Sync {
    /// Checks that the mail server accepts connections.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the mail server does not accept connections.
    fn ping(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Ends all mail server sessions that logged in with these revoked app passwords.
    /// `app_passwords` contains the ids of the app passwords. The sessions belong to mail clients
    /// or to the service.
    ///
    /// Returns no error if a session cannot be ended.
    fn end_sessions<'a>(&'a self, app_passwords: &'a [String]) -> BoxFuture<'a, ()>;

    /// Ends the mail server sessions of all mail clients of the account with this address, if
    /// `imap.session_names` is `user`. Such sessions have the name of the user and not of an app
    /// password, so [`MailServer::end_sessions`] cannot select them. Otherwise does nothing.
    ///
    /// Returns no error if a session cannot be ended.
    fn end_user_sessions<'a>(&'a self, address: &'a str) -> BoxFuture<'a, ()>;

    /// Closes the service's own connections to the mail server that use the credential with this
    /// id.
    fn close_connections(&self, credential: &str);

    /// Returns the UIDVALIDITY of the folder with the id `folder` in the account's mailbox, or
    /// `None` if there is no such folder.
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
    /// The mail server rejected the command. The text is from the mail server and can be shown to
    /// users.
    #[error("the mail server rejected the command: {0}")]
    Rejected(String),
    /// The operation failed for another reason.
    #[error("{0}")]
    Internal(String),
}
