//! Errors of the module manager.

use latchmail_core::error::StartError;

/// The reason why an operation of the module manager failed. A failed operation changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The component or the request is invalid. The text can be shown to a client.
    #[error("{0}")]
    Invalid(String),
    /// The module or the version does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The change conflicts with other modules or with the configuration.
    #[error("{0}")]
    Conflict(String),
    /// The operator's consent is missing. Each string contains the name of the module and one
    /// permission that needs consent.
    #[error("This needs the operator's consent: {}", .0.join("; "))]
    ConsentRequired(Vec<String>),
    /// The database failed.
    #[error("the database failed")]
    Directory(#[from] latchmail_directory::Error),
}

impl Error {
    /// Creates the error for a component that cannot be loaded as the module `name`.
    pub(super) fn cannot_load(name: &str, reason: &str) -> Self {
        Self::Invalid(format!("module `{name}` cannot be loaded: {reason}"))
    }

    pub(super) fn not_found(name: &str) -> Self {
        Self::NotFound(format!("there is no module `{name}`"))
    }

    /// Creates the error for a conflict of routes.
    pub(super) fn route_conflict(reason: &StartError) -> Self {
        Self::Conflict(reason.to_string())
    }
}
