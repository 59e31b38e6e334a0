//! `latchmail:host/credentials`: the credentials of the caller's account.

use super::{Error, Host, Scope};
use crate::bindings::latchmail::host::credentials;
pub use crate::bindings::latchmail::host::credentials::{
    CreatedAppPassword, CreatedToken, Credential, Grant as AccountGrant, GrantPolicy, Revocation,
    Token, TokenReference,
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

    /// Returns the OAuth grants and the API tokens of the account, newest first. The list includes
    /// expired API tokens and excludes revoked ones.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the host fails.
    fn list_grants(&self) -> Result<Vec<AccountGrant>, Error>;

    /// Returns the policies of grants. A grant without a policy is missing.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the host fails.
    fn list_grant_policies(&self) -> Result<Vec<GrantPolicy>, Error>;

    /// Ends a grant, with its tokens.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account has no grant with this id.
    fn end_grant(&self, id: &str) -> Result<(), Error>;

    /// Suspends a grant. The host refuses its requests until the grant is resumed. Succeeds even if
    /// the grant is already suspended.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account has no grant with this id.
    fn suspend_grant(&self, id: &str) -> Result<(), Error>;

    /// Resumes a suspended grant. Succeeds even if the grant is not suspended.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account has no grant with this id.
    fn resume_grant(&self, id: &str) -> Result<(), Error>;
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

    fn list_grants(&self) -> Result<Vec<AccountGrant>, Error> {
        credentials::list_grants()
    }

    fn list_grant_policies(&self) -> Result<Vec<GrantPolicy>, Error> {
        credentials::list_grant_policies()
    }

    fn end_grant(&self, id: &str) -> Result<(), Error> {
        credentials::end_grant(id)
    }

    fn suspend_grant(&self, id: &str) -> Result<(), Error> {
        credentials::suspend_grant(id)
    }

    fn resume_grant(&self, id: &str) -> Result<(), Error> {
        credentials::resume_grant(id)
    }
}
