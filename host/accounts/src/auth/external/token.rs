//! An opaque token that a client sent. Only a query of the external authorization server shows
//! whether the token is valid.

use std::fmt;

use latchmail_core::secrets::sha256_hex;
use secrecy::{ExposeSecret as _, SecretString};

/// A token of visible ASCII characters, and the hash of the token.
#[derive(Clone)]
pub struct OpaqueToken {
    secret: SecretString,
    hash: String,
}

impl fmt::Debug for OpaqueToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpaqueToken").finish_non_exhaustive()
    }
}

impl OpaqueToken {
    pub(in crate::auth) fn of(token: &str) -> Self {
        Self {
            secret: SecretString::from(token),
            hash: sha256_hex(token),
        }
    }

    /// Returns the SHA-256 hash of the token as lower-case hexadecimal.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the token itself.
    pub(in crate::auth) const fn secret(&self) -> &SecretString {
        &self.secret
    }

    /// Returns the length of the token in bytes.
    pub(super) fn len(&self) -> usize {
        self.secret.expose_secret().len()
    }
}
