//! `latchmail:host/filters`: the vacation response and the rules of the caller's mailbox.

use super::{Error, Host};
use crate::bindings::latchmail::host::filters;
pub use crate::bindings::latchmail::host::filters::{
    Action as RuleAction, Condition as RuleCondition, FilterError, FilterState, Rule, Vacation,
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
}

impl From<Error> for FilterError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
