//! The interface `profile`, for the personal data and the password of the caller's account.

use std::sync::Arc;

use latchmail_accounts::auth::Auth;
use latchmail_accounts::auth::account::PasswordChange;
use latchmail_bindings::latchmail::host::profile::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::{Caller, Scope};
use latchmail_core::error::Failure;
use latchmail_directory::accounts::profiles::ProfileUpdate;
use secrecy::SecretString;

use super::call::Call;
use super::convert::account_error;
use super::host_call::host_call;
use super::session::{SessionAccount, confirmed};

impl Host for Call {
    async fn get(&mut self) -> wasmtime::Result<Result<wit::Details, Error>> {
        let _span = host_call("profile.get");
        Ok(async move {
            let caller = self.require_scope(Scope::ProfileRead)?.clone();
            let auth = Arc::clone(&self.services.auth);
            details(&auth, caller).await
        }
        .await)
    }

    async fn update(&mut self, changes: wit::Changes) -> wasmtime::Result<Result<(), Error>> {
        let _span = host_call("profile.update");
        Ok(async move { self.require_session()?.update_profile(changes).await }.await)
    }

    async fn change_password(
        &mut self,
        current: String,
        new: String,
    ) -> wasmtime::Result<Result<wit::PasswordChange, Error>> {
        let _span = host_call("profile.change-password");
        self.count_password_check()?;
        let (current, new) = (SecretString::from(current), SecretString::from(new));
        match self.require_session() {
            Ok(session) => confirmed(session.change_password(current, new).await),
            Err(error) => Ok(Err(error)),
        }
    }
}

async fn details(auth: &Auth, caller: Caller) -> Result<wit::Details, Error> {
    let profile = auth
        .profiles
        .profile(&caller.account)
        .await
        .map_err(account_error)?;
    let profile = profile.ok_or(Error::NotFound)?;
    Ok(wit::Details {
        address: caller.address,
        first_name: profile.first_name,
        last_name: profile.last_name,
        dob: profile.dob,
        created_at: profile.created_at,
    })
}

impl SessionAccount {
    async fn update_profile(&self, changes: wit::Changes) -> Result<(), Error> {
        let update = ProfileUpdate {
            first_name: changes.first_name,
            last_name: changes.last_name,
            dob: changes.dob,
        };
        let exists = self
            .auth
            .profiles
            .change_profile(self.session(), update, &self.origin);
        exists
            .await
            .map_err(account_error)?
            .then_some(())
            .ok_or(Error::NotFound)
    }

    async fn change_password(
        &self,
        current: SecretString,
        new: SecretString,
    ) -> Result<wit::PasswordChange, Failure> {
        let changed = self.auth.verifier.change_password(
            self.confirmation(current),
            new,
            self.origin.clone(),
        );
        Ok(match changed.await? {
            PasswordChange::Changed => wit::PasswordChange::Changed,
            PasswordChange::Same => wit::PasswordChange::Same,
            PasswordChange::Wrong => wit::PasswordChange::Wrong,
        })
    }
}
