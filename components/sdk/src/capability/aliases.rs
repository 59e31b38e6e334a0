//! `latchmail:host/aliases`: the caller's aliases.

use super::{Error, Host};
use crate::bindings::latchmail::host::aliases;
pub use crate::bindings::latchmail::host::aliases::Alias;

/// The caller's aliases. Reading needs the scope `aliases:read`, changes need `aliases:write`.
///
/// Every function can return `Denied` and `Internal`. A function that changes something can also return `CredentialRefused`.
pub trait Aliases {
    /// Returns the aliases, sorted by address.
    ///
    /// # Errors
    /// Returns only the errors that the description of the trait lists.
    fn list_aliases(&self) -> Result<Vec<Alias>, Error>;

    /// Returns the domains on which the caller can create aliases: first the platform domains, then the caller's own active domains.
    ///
    /// # Errors
    /// Returns only the errors that the description of the trait lists.
    fn alias_domains(&self) -> Result<Vec<String>, Error>;

    /// Creates an alias. `name` is the local part.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the name is not allowed on the domain, or if the caller cannot create aliases on the domain. Returns [`Error::Conflict`]
    /// if the address is in use or reserved. Returns [`Error::TooLarge`] if the account has the maximum number of aliases.
    fn create_alias(&self, name: &str, domain: &str) -> Result<Alias, Error>;

    /// Checks that an alias can be created now. The check does not reserve the address.
    ///
    /// # Errors
    /// Returns the errors of [`Aliases::create_alias`].
    fn check_alias(&self, name: &str, domain: &str) -> Result<(), Error>;

    /// Activates or deactivates an alias. Setting the current state is not an error.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the caller has no alias with this id.
    fn set_alias_active(&self, id: u64, active: bool) -> Result<(), Error>;

    /// Deletes an alias. Mail that was delivered through it stays.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the caller has no alias with this id.
    fn delete_alias(&self, id: u64) -> Result<(), Error>;
}

impl Aliases for Host {
    fn list_aliases(&self) -> Result<Vec<Alias>, Error> {
        aliases::list()
    }

    fn alias_domains(&self) -> Result<Vec<String>, Error> {
        aliases::domains()
    }

    fn create_alias(&self, name: &str, domain: &str) -> Result<Alias, Error> {
        aliases::create(name, domain)
    }

    fn check_alias(&self, name: &str, domain: &str) -> Result<(), Error> {
        aliases::check(name, domain)
    }

    fn set_alias_active(&self, id: u64, active: bool) -> Result<(), Error> {
        aliases::set_active(id, active)
    }

    fn delete_alias(&self, id: u64) -> Result<(), Error> {
        aliases::delete(id)
    }
}
