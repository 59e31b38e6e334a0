//! Deserialization of secrets.

use secrecy::SecretString;
use serde::{Deserialize, Deserializer};

pub(super) fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    String::deserialize(deserializer).map(SecretString::from)
}
