//! Profiles and passwords of the fake host.

use super::{FakeHost, Need};
use crate::capability::{Changes, Details, Error, PasswordChange, Profile, Scope};

impl FakeHost {
    /// Removes the profile of the signed-in account. An account has no profile if the operator
    /// created the account.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn forget_profile(&self) {
        self.with_account(|account| account.profile = None);
    }
}

/// Names and passwords are not validated. An account's initial password is `Correct-Horse-7`.
impl Profile for FakeHost {
    fn get(&self) -> Result<Details, Error> {
        self.allow(Need::Scope(Scope::ProfileRead), |account| {
            account.profile.clone().ok_or(Error::NotFound)
        })
    }

    fn update(&self, changes: &Changes) -> Result<(), Error> {
        let now = self.now();
        self.allow(Need::Session, |account| {
            account.update_profile(changes, now)
        })
    }

    fn change_password(&self, current: &str, new: &str) -> Result<PasswordChange, Error> {
        self.allow(Need::Session, |account| {
            Ok(account.change_password(current, new))
        })
    }
}
