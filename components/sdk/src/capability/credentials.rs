//! `latchmail:host/credentials`: the credentials of the caller's account.

use super::{Error, Host, Scope};
use crate::bindings::latchmail::host::credentials;
pub use crate::bindings::latchmail::host::credentials::{
    CreatedAppPassword, CreatedToken, Credential, Revocation, Token, TokenReference,
};
use crate::scope;

/// The credentials of the caller's account. Each function needs a web session.
pub trait Credentials {
    /// Creates an API token that expires after `days` days. If `days` is `None`, the token does not
    /// expire.
    ///
    /// # Errors
    /// Returns [`Error::Conflict`] if the account already has `at_most` tokens or more.
    fn create_token(
        &self,
        label: &str,
        scopes: &[Scope],
        days: Option<u32>,
        at_most: u32,
    ) -> Result<CreatedToken, Error>;

    /// Returns the API tokens, newest first. The list includes expired tokens and excludes revoked
    /// tokens.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the host fails.
    fn list_tokens(&self) -> Result<Vec<Token>, Error>;

    /// Revokes an API token. Succeeds even if the token is already revoked.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the token does not belong to the account.
    fn revoke_token(&self, id: &str) -> Result<(), Error>;

    /// Creates an app password for a mail client.
    ///
    /// # Errors
    /// Returns [`Error::Conflict`] if the account already has the maximum number of app passwords.
    fn create_app_password(&self, label: &str) -> Result<CreatedAppPassword, Error>;

    /// Returns all credentials of the account, newest first.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the host fails.
    fn list_credentials(&self) -> Result<Vec<Credential>, Error>;

    /// Revokes an app password. If an API token uses the app password, revokes nothing and returns
    /// [`Revocation::BacksToken`].
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account has no app password with this id.
    fn revoke_app_password(&self, id: &str) -> Result<Revocation, Error>;
}

impl Credentials for Host {
    fn create_token(
        &self,
        label: &str,
        scopes: &[Scope],
        days: Option<u32>,
        at_most: u32,
    ) -> Result<CreatedToken, Error> {
        credentials::create_token(label, &scope::names(scopes), days, at_most)
    }

    fn list_tokens(&self) -> Result<Vec<Token>, Error> {
        credentials::list_tokens()
    }

    fn revoke_token(&self, id: &str) -> Result<(), Error> {
        credentials::revoke_token(id)
    }

    fn create_app_password(&self, label: &str) -> Result<CreatedAppPassword, Error> {
        credentials::create_app_password(label)
    }

    fn list_credentials(&self) -> Result<Vec<Credential>, Error> {
        credentials::list_credentials()
    }

    fn revoke_app_password(&self, id: &str) -> Result<Revocation, Error> {
        credentials::revoke_app_password(id)
    }
}
