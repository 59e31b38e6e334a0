//! An access token of an authorization server elsewhere, as it was presented. It has no shape by which it could be told whether it is one.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

use crate::auth::secrets::sha256_hex;

/// Visible ASCII.
#[derive(Clone)]
pub struct OpaqueToken {
    secret: SecretString,
    hash: String,
}

/// Never shows the token.
impl fmt::Debug for OpaqueToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpaqueToken").finish_non_exhaustive()
    }
}

impl OpaqueToken {
    pub(in crate::auth) fn of(presented: &str) -> Self {
        Self {
            secret: SecretString::from(presented),
            hash: sha256_hex(presented),
        }
    }

    /// SHA-256 of the whole, lower-case hexadecimal.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The token itself.
    pub(in crate::auth) const fn secret(&self) -> &SecretString {
        &self.secret
    }

    /// Its bytes.
    pub(super) fn len(&self) -> usize {
        self.secret.expose_secret().len()
    }
}
