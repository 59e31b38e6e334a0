//! `latchmail:host/filters`: the vacation response and the rules of the caller's mailbox.

use super::{Error, Host};
use crate::bindings::latchmail::host::filters;
pub use crate::bindings::latchmail::host::filters::{
    Action as RuleAction, Condition as RuleCondition, FilterError, FilterState, ForwardAddress,
    Rule, Vacation,
};

/// The vacation response and the rules of the caller's own mailbox. Reading needs the scope
/// `mail:read`, and writing needs `mail:write`.
///
/// Every function returns [`FilterError::Unsupported`] if the mail server does not support scripts,
/// and [`Error::CredentialRefused`], [`Error::Unavailable`], [`Error::Denied`] or
/// [`Error::Internal`] as the functions of [`Mailbox`](super::Mailbox). A function that changes
/// something can also return [`Error::Rejected`] and [`Error::OutcomeUnknown`].
pub trait Filters {
    /// Returns the vacation response and the rules.
    ///
    /// # Errors
    /// Returns an error in the cases that the description of [`Filters`] lists.
    fn get_filters(&self) -> Result<FilterState, FilterError>;

    /// Replaces the vacation response, and returns the new state. With `if_version`, makes the
    /// change only if the state has this version.
    ///
    /// # Errors
    /// Returns [`FilterError::VersionMismatch`] if the state has another version. Returns
    /// [`Error::Invalid`] if a value is invalid. Returns [`Error::Conflict`] if another script has
    /// a vacation response.
    fn set_vacation(
        &self,
        vacation: &Vacation,
        if_version: Option<&str>,
    ) -> Result<FilterState, FilterError>;

    /// Replaces all rules, and returns the new state. With `if_version`, makes the change only if
    /// the state has this version.
    ///
    /// # Errors
    /// Returns [`FilterError::VersionMismatch`] if the state has another version. Returns
    /// [`Error::Invalid`] if a rule is invalid, if a folder does not exist, or if mail cannot be
    /// forwarded to an address.
    fn set_rules(
        &self,
        rules: &[Rule],
        if_version: Option<&str>,
    ) -> Result<FilterState, FilterError>;

    /// Returns the addresses outside of the service to which rules can forward mail, and those that
    /// can still be confirmed. Needs the scope `mail:read`.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] for a member of a shared mailbox.
    fn list_forward_addresses(&self) -> Result<Vec<ForwardAddress>, Error>;

    /// Sends a code to an address. Needs a web session.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the text is not an address. Returns [`Error::Conflict`] if the
    /// address is confirmed, or if the account has too many addresses or requests.
    fn request_forward_address(&self, address: &str) -> Result<ForwardAddress, Error>;

    /// Confirms an address with its code. Needs a web session.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such address, or if its code has expired. Returns
    /// [`Error::Invalid`] if the code is wrong.
    fn confirm_forward_address(&self, id: &str, code: &str) -> Result<ForwardAddress, Error>;

    /// Deletes an address, and disables the rules that forward mail to it. Needs a web session.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such address.
    fn delete_forward_address(&self, id: &str) -> Result<(), Error>;
}

impl Filters for Host {
    fn get_filters(&self) -> Result<FilterState, FilterError> {
        filters::get()
    }

    fn set_vacation(
        &self,
        vacation: &Vacation,
        if_version: Option<&str>,
    ) -> Result<FilterState, FilterError> {
        filters::set_vacation(vacation, if_version)
    }

    fn set_rules(
        &self,
        rules: &[Rule],
        if_version: Option<&str>,
    ) -> Result<FilterState, FilterError> {
        filters::set_rules(rules, if_version)
    }

    fn list_forward_addresses(&self) -> Result<Vec<ForwardAddress>, Error> {
        filters::list_forward_addresses()
    }

    fn request_forward_address(&self, address: &str) -> Result<ForwardAddress, Error> {
        filters::request_forward_address(address)
    }

    fn confirm_forward_address(&self, id: &str, code: &str) -> Result<ForwardAddress, Error> {
        filters::confirm_forward_address(id, code)
    }

    fn delete_forward_address(&self, id: &str) -> Result<(), Error> {
        filters::delete_forward_address(id)
    }
}

impl From<Error> for FilterError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
