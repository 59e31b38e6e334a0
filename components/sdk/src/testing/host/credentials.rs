//! API tokens and app passwords of the fake host.

use super::{FakeHost, Need};
use crate::capability::{
    CreatedAppPassword, CreatedToken, Credential, Credentials, Error, Revocation, Scope, Token,
};

impl FakeHost {
    /// Adds a credential of the signed-in account, for example a web session. A new account has no
    /// credentials.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn put_credential(&self, credential: Credential) {
        self.with_account(|account| account.credentials.put(credential));
    }
}

/// Secrets are placeholders and not usable for authentication. The list of credentials contains a
/// web session only after [`FakeHost::put_credential`] adds one.
impl Credentials for FakeHost {
    fn create_token(
        &self,
        label: &str,
        scopes: &[Scope],
        days: Option<u32>,
        at_most: u32,
    ) -> Result<CreatedToken, Error> {
        let now = self.now();
        self.allow(Need::Session, |account| {
            let credentials = &mut account.credentials;
            credentials.create_token(label, scopes, days, at_most, now)
        })
    }

    fn list_tokens(&self) -> Result<Vec<Token>, Error> {
        self.allow(Need::Session, |account| Ok(account.credentials.tokens()))
    }

    fn revoke_token(&self, id: &str) -> Result<(), Error> {
        self.allow(Need::Session, |account| {
            account.credentials.revoke_token(id)
        })
    }

    fn create_app_password(&self, label: &str) -> Result<CreatedAppPassword, Error> {
        let now = self.now();
        self.allow(Need::Session, |account| {
            let id = account.credentials.create_app_password(label, now)?;
            Ok(CreatedAppPassword {
                username: account.address.clone(),
                secret: format!("secret-of-{id}"),
                id,
            })
        })
    }

    fn list_credentials(&self) -> Result<Vec<Credential>, Error> {
        self.allow(Need::Session, |account| Ok(account.credentials.all()))
    }

    fn revoke_app_password(&self, id: &str) -> Result<Revocation, Error> {
        self.allow(Need::Session, |account| {
            account.credentials.revoke_app_password(id)
        })
    }
}
