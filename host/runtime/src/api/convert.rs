//! Conversion between the host's types and the generated WIT types.

use crate::api::problem;
use latchmail_accounts::mail_server;
use latchmail_bindings::latchmail::host::types as wit;
use latchmail_core::caller::Scope;
use latchmail_core::codes;
use latchmail_core::error::{Failure, Kind};

/// Returns the names of scopes.
pub(super) fn scopes_to_wit(scopes: impl IntoIterator<Item = Scope>) -> Vec<wit::Scope> {
    scopes
        .into_iter()
        .map(|scope| scope.name().into())
        .collect()
}

/// Converts the names of scopes. Returns an error if the host does not know a name.
pub(super) fn scopes_from_wit(names: &[wit::Scope]) -> Result<Vec<Scope>, wit::Error> {
    let scope = |name: &wit::Scope| Scope::named(name).ok_or_else(|| unknown("scope", name));
    names.iter().map(scope).collect()
}

/// Returns the error for a value that the host does not know. The text has at most 64 characters of
/// the value.
pub(super) fn unknown(what: &str, value: &str) -> wit::Error {
    let value: String = value.chars().take(64).collect();
    problem::invalid(
        codes::INVALID_FIELD,
        format!("There is no {what} {value:?}"),
    )
}

/// Converts a failure of an account operation to a WIT error. The module receives the text only if
/// the request is invalid or forbidden. The host logs the details of all other failures, except a
/// refused credential.
pub(crate) fn account_error(failure: Failure) -> wit::Error {
    match failure.kind {
        Kind::Invalid => problem::invalid(failure.code, failure.text),
        Kind::Forbidden => problem::denied(failure.code, failure.text),
        Kind::Unauthorized => wit::Error::CredentialRefused,
        Kind::OverQuota => wit::Error::OverQuota,
        Kind::Unavailable => {
            tracing::warn!("mail server or database unavailable: {failure}");
            wit::Error::Unavailable
        }
        Kind::Unknown => {
            tracing::error!("outcome of a change of the account is unknown: {failure}");
            wit::Error::OutcomeUnknown
        }
        _ => {
            tracing::error!("failed to read or change the account: {failure}");
            wit::Error::Internal
        }
    }
}

/// Converts an error of the mailbox service to a WIT error. The module receives the text of an
/// error that the request caused. The host logs the details of other failures, and the module
/// receives only their kind.
pub(super) fn mailbox_error(error: latchmail_mailbox::Error) -> wit::Error {
    match error {
        latchmail_mailbox::Error::CredentialRefused => wit::Error::CredentialRefused,
        latchmail_mailbox::Error::Unavailable(detail) => {
            tracing::warn!("mail server or database unavailable: {detail}");
            wit::Error::Unavailable
        }
        latchmail_mailbox::Error::Denied(_) => {
            problem::denied(codes::MISSING_RIGHT, error.to_string())
        }
        latchmail_mailbox::Error::Policy(why) => wit::Error::Denied(problem::of(why)),
        latchmail_mailbox::Error::TooLarge(why) => wit::Error::TooLarge(problem::of(why)),
        latchmail_mailbox::Error::OverQuota => wit::Error::OverQuota,
        latchmail_mailbox::Error::InvalidFolderPath => {
            problem::invalid(codes::INVALID_FOLDER_PATH, error.to_string())
        }
        latchmail_mailbox::Error::Folder(conflict) => {
            problem::conflict(conflict.code(), conflict.to_string())
        }
        latchmail_mailbox::Error::InvalidQuery(sentence) => {
            problem::invalid(codes::INVALID_SEARCH_QUERY, sentence)
        }
        latchmail_mailbox::Error::InvalidCursor => {
            problem::invalid(codes::INVALID_CURSOR, error.to_string())
        }
        latchmail_mailbox::Error::CursorExpired => {
            problem::invalid(codes::CURSOR_EXPIRED, error.to_string())
        }
        latchmail_mailbox::Error::IndexNotReady => wit::Error::Unavailable,
        latchmail_mailbox::Error::MessageChanged => {
            problem::conflict(codes::MESSAGE_CHANGED, error.to_string())
        }
        latchmail_mailbox::Error::NoTrashFolder => {
            problem::conflict(codes::NO_TRASH_FOLDER, error.to_string())
        }
        latchmail_mailbox::Error::NotInTrash => {
            problem::conflict(codes::MESSAGE_NOT_IN_TRASH, error.to_string())
        }
        latchmail_mailbox::Error::NotSnoozed => {
            problem::conflict(codes::MESSAGE_NOT_SNOOZED, error.to_string())
        }
        latchmail_mailbox::Error::InvalidSnoozeTime => {
            problem::invalid(codes::INVALID_SNOOZE_DATA, error.to_string())
        }
        latchmail_mailbox::Error::Suspended => {
            problem::denied(codes::GRANT_SUSPENDED, error.to_string())
        }
        latchmail_mailbox::Error::Rejected(sentence) => problem::rejected(sentence),
        latchmail_mailbox::Error::Unknown(detail) => {
            tracing::error!("outcome of a mailbox change is unknown: {detail}");
            wit::Error::OutcomeUnknown
        }
        latchmail_mailbox::Error::Internal(detail) => {
            tracing::error!("mailbox operation failed: {detail}");
            wit::Error::Internal
        }
    }
}

/// Converts an error of the mail server to a WIT error. The module receives the text only if the
/// mail server rejected the request. The host logs the details of other failures.
pub(super) fn mail_server_error(error: mail_server::Error) -> wit::Error {
    match error {
        mail_server::Error::CredentialRefused => wit::Error::CredentialRefused,
        mail_server::Error::Unavailable(detail) => {
            tracing::warn!("mail server unavailable: {detail}");
            wit::Error::Unavailable
        }
        mail_server::Error::Rejected(sentence) => problem::rejected(sentence),
        mail_server::Error::Internal(detail) => {
            tracing::error!("mail server operation failed: {detail}");
            wit::Error::Internal
        }
    }
}
