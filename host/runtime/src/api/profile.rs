//! The interface `profile`, for the personal data and the password of the caller's account.

use latchmail_accounts::auth::account::PasswordChange;
use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::profile::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::Scope;
use latchmail_directory::accounts::profiles::ProfileUpdate;
use secrecy::SecretString;

use super::call::Call;
use super::convert::account_error;
use super::host_call::host_call;
use super::session::password_error;

impl Host for Call {
    async fn get(&mut self) -> Result<wit::Details, HostError<Error>> {
        let _span = host_call("profile.get");
        let caller = self.require_scope(Scope::ProfileRead)?;
        let profile = self.services.auth.profiles.profile(&caller.account).await;
        let profile = profile.map_err(account_error)?.ok_or(Error::NotFound)?;
        Ok(wit::Details {
            address: caller.address.clone(),
            first_name: profile.first_name,
            last_name: profile.last_name,
            dob: profile.dob,
            created_at: profile.created_at,
        })
    }

    async fn update(&mut self, changes: wit::Changes) -> Result<(), HostError<Error>> {
        let _span = host_call("profile.update");
        let account = self.require_session()?;
        let update = ProfileUpdate {
            first_name: changes.first_name,
            last_name: changes.last_name,
            dob: changes.dob,
        };
        let profiles = &account.auth.profiles;
        let exists = profiles.change_profile(account.session(), update, &account.origin);
        let exists = exists.await.map_err(account_error)?;
        Ok(exists.then_some(()).ok_or(Error::NotFound)?)
    }

    async fn change_password(
        &mut self,
        current: String,
        new: String,
    ) -> Result<wit::PasswordChange, HostError<Error>> {
        let _span = host_call("profile.change-password");
        self.count_password_check()?;
        let (current, new) = (SecretString::from(current), SecretString::from(new));
        let account = self.require_session()?;
        let (verifier, origin) = (&account.auth.verifier, account.origin.clone());
        let changed = verifier.change_password(account.confirmation(current), new, origin);
        Ok(match changed.await.map_err(password_error)? {
            PasswordChange::Changed => wit::PasswordChange::Changed,
            PasswordChange::Same => wit::PasswordChange::Same,
            PasswordChange::Wrong => wit::PasswordChange::Wrong,
        })
    }
}
