//! Why modules stay as they are.

use crate::directory;
use crate::error::StartError;

/// Why a change was not made. All is as it was.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The component, or what was asked of it, will not do. The sentence is fit to be shown.
    #[error("{0}")]
    Unusable(String),
    /// There is no such module, or no such version of it.
    #[error("{0}")]
    Unknown(String),
    /// It does not go together with what there is.
    #[error("{0}")]
    Conflict(String),
    /// What needs the operator's consent, in words.
    #[error("{}", yes(.0))]
    Consent(Vec<String>),
    /// The service failed.
    #[error("the database failed")]
    Failed(#[from] directory::Error),
}

fn yes(more: &[String]) -> String {
    format!("This needs the operator's consent: {}", more.join("; "))
}

impl Refusal {
    /// A component that cannot be a module.
    pub(super) fn unusable(name: &str, why: &str) -> Self {
        Self::Unusable(format!("module `{name}` cannot be loaded: {why}"))
    }

    pub(super) fn unknown(name: &str) -> Self {
        Self::Unknown(format!("there is no module `{name}`"))
    }

    /// Routes that do not go together.
    pub(super) fn clash(why: &StartError) -> Self {
        Self::Conflict(why.to_string())
    }
}
