//! Reasons in audit events for failed sign-ins.

pub(super) const DISABLED: &str = "the account is disabled";
pub(super) const NO_ACCOUNT: &str = "no such account";

/// Reasons for credentials that became invalid during the request.
pub(super) const CODE_USED: &str =
    "two-factor code used before, too many were wrong, or the secret was replaced";
pub(super) const ACCOUNT_CHANGED: &str = "the account was changed concurrently";
