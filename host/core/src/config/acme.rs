//! `[acme]`: certificates from a certificate authority (ACME, RFC 8555).

use super::values::{list, section};
use crate::error::StartError;

/// The URL of the ACME directory of Let's Encrypt (RFC 8555, section 7.1.1).
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

section! {
    /// `[acme]`: the settings for certificates from a certificate authority. If `domains` is empty,
    /// the service orders no certificates.
    pub struct Acme {
        /// The names in the certificate.
        #[serde(deserialize_with = "list")]
        pub domains: Vec<String>,
        /// The URLs at which the certificate authority can contact the operator, for example
        /// `mailto:admin@example.com`.
        #[serde(deserialize_with = "list")]
        pub contact: Vec<String>,
        /// The URL of the certificate authority's ACME directory.
        pub directory: String = LETS_ENCRYPT.into(),
        /// Whether the operator accepts the terms of service of the certificate authority.
        pub accept_terms: bool,
    }
}

impl Acme {
    /// Returns `true` if the service orders certificates.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        !self.domains.is_empty()
    }

    pub(super) fn check(&self) -> Result<(), StartError> {
        let fail = |text: String| Err(StartError::new(text));
        if !self.is_configured() {
            return Ok(());
        }
        let is_name = |name: &String| {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
            !name.is_empty() && name.chars().all(is_allowed)
        };
        if let Some(name) = self.domains.iter().find(|name| !is_name(name)) {
            return fail(format!(
                "`acme.domains` contains `{name}`, which is not a host name in ASCII without a wildcard"
            ));
        }
        let is_mail = |contact: &&String| !contact.starts_with("mailto:");
        if let Some(contact) = self.contact.iter().find(is_mail) {
            return fail(format!(
                "`acme.contact` contains `{contact}`, which does not start with `mailto:`"
            ));
        }
        if !self.directory.starts_with("https://") {
            return fail(format!(
                "`acme.directory` is `{}`, which is not an https URL",
                self.directory
            ));
        }
        if !self.accept_terms {
            return fail(format!(
                "`acme.accept_terms` is false: read the terms of service of the certificate authority at {}, and set `acme.accept_terms = true` to accept them",
                self.directory
            ));
        }
        Ok(())
    }
}
