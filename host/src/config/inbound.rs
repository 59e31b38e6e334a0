//! `[inbound]`: mail that arrives.

use serde::Deserialize;

use crate::error::StartError;

/// `[inbound]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Inbound {
    /// The name under which the mail server writes `Authentication-Results` (RFC 8601). Empty: none of them is trusted.
    pub authserv_id: String,
}

impl Inbound {
    /// Checks the authserv-id.
    ///
    /// # Errors
    /// A sentence that names the key.
    pub(super) fn check(&self) -> Result<(), StartError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if self.authserv_id.bytes().all(plain) {
            return Ok(());
        }
        Err(StartError::new(format!(
            "`inbound.authserv_id` is `{}`: it may have letters, digits, dots, hyphens and underscores only, as in mail.example.org",
            self.authserv_id
        )))
    }
}
