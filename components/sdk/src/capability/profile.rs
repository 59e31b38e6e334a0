//! `latchmail:host/profile`: the profile and the password of the caller's account.

use super::{Error, Host};
use crate::bindings::latchmail::host::profile;
pub use crate::bindings::latchmail::host::profile::{Changes, Details, PasswordChange};

/// The profile and the password of the caller's account.
pub trait Profile {
    /// Returns the profile. Needs the scope `profile:read`.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the account has no profile.
    fn get(&self) -> Result<Details, Error>;

    /// Changes the profile. Creates the profile if it does not exist and all fields are set. Needs
    /// a web session.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if a value is invalid. Returns [`Error::NotFound`] if the profile
    /// does not exist and a field is missing.
    fn update(&self, changes: &Changes) -> Result<(), Error>;

    /// Changes the password. Needs a web session. Revokes all credentials of the account, except
    /// the caller's web session and the app passwords of mail clients.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the new password is invalid.
    fn change_password(&self, current: &str, new: &str) -> Result<PasswordChange, Error>;
}

impl Profile for Host {
    fn get(&self) -> Result<Details, Error> {
        profile::get()
    }

    fn update(&self, changes: &Changes) -> Result<(), Error> {
        profile::update(changes)
    }

    fn change_password(&self, current: &str, new: &str) -> Result<PasswordChange, Error> {
        profile::change_password(current, new)
    }
}
