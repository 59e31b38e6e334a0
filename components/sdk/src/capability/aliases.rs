//! `latchmail:host/aliases`: the caller's aliases.

use super::{Error, Host};
use crate::bindings::latchmail::host::aliases;
pub use crate::bindings::latchmail::host::aliases::{Alias, AliasChange, Expiry};

/// The caller's aliases. Functions that read aliases need the scope `aliases:read`. Functions that
/// change aliases need the scope `aliases:write`.
///
/// Every function returns [`Error::Denied`] if the caller lacks the permission, and
/// [`Error::Internal`] if the host fails. A function that changes aliases also returns
/// [`Error::CredentialRefused`] if the mail server rejects the caller's credential.
pub trait Aliases {
    /// Returns the aliases, sorted by address.
    ///
    /// # Errors
    /// Returns an error in the cases that the description of [`Aliases`] lists.
    fn list_aliases(&self) -> Result<Vec<Alias>, Error>;

    /// Returns the domains on which the caller can create aliases. The platform domains precede the
    /// caller's own active domains.
    ///
    /// # Errors
    /// Returns an error in the cases that the description of [`Aliases`] lists.
    fn alias_domains(&self) -> Result<Vec<String>, Error>;

    /// Creates an alias. `name` is the local part.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the domain does not allow the name, or if the caller cannot
    /// create aliases on the domain. Returns [`Error::Conflict`] if the address is used or
    /// reserved. Returns [`Error::TooLarge`] if the account has the maximum number of aliases.
    fn create_alias(&self, name: &str, domain: &str) -> Result<Alias, Error>;

    /// Checks whether an alias can be created. The check does not reserve the address.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Aliases::create_alias`].
    fn check_alias(&self, name: &str, domain: &str) -> Result<(), Error>;

    /// Changes an alias, and returns its new state. Succeeds even if the change has no effect.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the caller has no alias with this id. Returns
    /// [`Error::Invalid`] if the note has more than 200 characters or has control characters.
    fn update_alias(&self, id: u64, change: &AliasChange) -> Result<Alias, Error>;

    /// Deletes an alias. Delivered mail stays in the mailbox.
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

    fn update_alias(&self, id: u64, change: &AliasChange) -> Result<Alias, Error> {
        aliases::update(id, change)
    }

    fn delete_alias(&self, id: u64) -> Result<(), Error> {
        aliases::delete(id)
    }
}
