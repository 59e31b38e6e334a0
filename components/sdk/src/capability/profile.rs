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

    /// Changes the profile. If there is no profile and all fields are given, creates the profile. Needs a web session.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if a value is invalid, and [`Error::NotFound`] if there is no profile and a field is missing.
    fn update(&self, changes: &Changes) -> Result<(), Error>;

    /// Changes the password. Needs a web session, and this session continues. All other credentials of the account end, except app passwords of mail clients.
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
