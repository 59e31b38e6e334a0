//! `[registration]`: registration of accounts, and the platform's own domains.

use serde::Deserialize;

use super::sign_in::folded;
use super::values::list;
use crate::error::StartError;

/// The section `[registration]` of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Registration {
    /// Whether clients can register accounts.
    pub enabled: bool,
    /// The platform's own domains. A user name without a domain belongs to the first domain.
    #[serde(deserialize_with = "list")]
    pub domains: Vec<String>,
}

impl Default for Registration {
    fn default() -> Self {
        Self {
            enabled: true,
            domains: Vec::new(),
        }
    }
}

impl Registration {
    /// Replaces each domain by its canonical form.
    pub(super) fn check(&mut self) -> Result<(), StartError> {
        for domain in &mut self.domains {
            *domain = folded("registration.domains", domain)?;
        }
        Ok(())
    }
}
