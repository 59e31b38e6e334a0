//! Deserialization of secrets.

use secrecy::SecretString;
use serde::{Deserialize, Deserializer};

/// Deserializes a string as a secret.
pub(super) fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    String::deserialize(deserializer).map(SecretString::from)
}
