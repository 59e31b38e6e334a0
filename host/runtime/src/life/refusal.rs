//! Errors of changes to modules.

use latchmail_core::error::StartError;

/// The reason why a change was not made. A failed change has no effect.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The component or the request is invalid. The sentence can be shown to a client.
    #[error("{0}")]
    Unusable(String),
    /// The module or the version does not exist.
    #[error("{0}")]
    Unknown(String),
    /// The change conflicts with other modules or with the configuration.
    #[error("{0}")]
    Conflict(String),
    /// The operator's consent is missing. Each sentence describes one permission that needs it.
    #[error("{}", yes(.0))]
    Consent(Vec<String>),
    /// The database failed.
    #[error("the database failed")]
    Failed(#[from] latchmail_directory::Error),
}

fn yes(more: &[String]) -> String {
    format!("This needs the operator's consent: {}", more.join("; "))
}

impl Refusal {
    /// The component cannot be loaded as a module.
    pub(super) fn unusable(name: &str, why: &str) -> Self {
        Self::Unusable(format!("module `{name}` cannot be loaded: {why}"))
    }

    pub(super) fn unknown(name: &str) -> Self {
        Self::Unknown(format!("there is no module `{name}`"))
    }

    /// The routes conflict.
    pub(super) fn clash(why: &StartError) -> Self {
        Self::Conflict(why.to_string())
    }
}
