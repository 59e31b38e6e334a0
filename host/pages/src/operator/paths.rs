//! The paths of the operator's pages.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub(super) const START: &str = "/admin";
pub(super) const STYLE: &str = "/admin/style.css";
pub(super) const SIGN_IN: &str = "/admin/sign-in";
pub(super) const SIGN_OUT: &str = "/admin/sign-out";
pub(super) const MODULES: &str = "/admin/modules";
pub(super) const CHARTS_DATA: &str = "/admin/modules.json";
pub(super) const CHARTS_SCRIPT: &str = "/admin/charts.js";
pub(super) const ACCOUNTS: &str = "/admin/accounts";
pub(super) const DOMAINS: &str = "/admin/domains";
pub(super) const MAIL_SERVER: &str = "/admin/mail-server";
pub(super) const LIMITS: &str = "/admin/limits";
pub(super) const LOG: &str = "/admin/log";

/// The characters of an email address that are percent-encoded in a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'@')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_');

/// Returns the path of the page of a module. Names of modules consist of lowercase letters, digits
/// and hyphens.
pub(super) fn of_module(name: &str) -> String {
    format!("{MODULES}/{name}")
}

/// Returns the path of the page of an account.
pub(super) fn of_account(address: &str) -> String {
    format!("{ACCOUNTS}/{}", utf8_percent_encode(address, ENCODED))
}

/// Returns the path of the page with the events of an account.
pub(super) fn of_events(address: &str) -> String {
    let address = utf8_percent_encode(address, NON_ALPHANUMERIC);
    format!("{LOG}?address={address}")
}
