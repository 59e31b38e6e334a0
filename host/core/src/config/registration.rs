//! `[registration]`: registration of accounts, and the platform's own domains.

use serde::Deserialize;

use super::values::list;
use crate::address;
use crate::error::StartError;

/// `[registration]`
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
            *domain = folded(domain)?;
        }
        Ok(())
    }
}

/// Returns the canonical form of a domain: lower case, ASCII (RFC 5890), without the last dot.
fn folded(domain: &str) -> Result<String, StartError> {
    let bare = domain.trim();
    address::fold_domain(bare.strip_suffix('.').unwrap_or(bare)).ok_or_else(|| {
        StartError::new(format!(
            "`registration.domains` contains `{domain}`, which is not a domain"
        ))
    })
}
