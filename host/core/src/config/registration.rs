//! `[registration]`: registration of accounts, and the platform's own domains.

use super::sign_in::folded;
use super::values::{list, section};
use crate::error::StartError;

section! {
    /// The section `[registration]` of the configuration.
    pub struct Registration {
        /// Whether clients can register accounts.
        pub enabled: bool = true,
        /// The platform's own domains. A user name without a domain belongs to the first domain.
        #[serde(deserialize_with = "list")]
        pub domains: Vec<String>,
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
