//! Fingerprints of passwords that another server stores. A fingerprint shows whether a user's
//! password has changed, and reveals nothing about the password.
//!
//! The text of a fingerprint is `fingerprint:`, the id of the service's key, a colon, and the
//! HMAC-SHA-256 of the account's id and the version of the password. The id and the HMAC are
//! hexadecimal. The version is a text that the other server changes together with the password,
//! such as the time of the last change.
//!
//! After the operator rotated the service's key, fingerprints with an earlier key still match while
//! that key is in the key file. After the operator removed that key, the service cannot determine
//! whether the password has changed. [`Keyring::compare_fingerprint`] then returns
//! [`Comparison::Unknown`], so that the removal of a key ends no session.

use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::error::Failure;
use crate::hexadecimal;
use crate::keyring::{Key, Keyring};

const PREFIX: &str = "fingerprint:";

/// The result of comparing a stored fingerprint with the current version of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The password has not changed, and the fingerprint has the current key.
    Same,
    /// The password has not changed. The fingerprint has an earlier key and must be replaced.
    SameWithEarlierKey,
    /// The password has changed.
    Different,
    /// The stored text is not a fingerprint, or its key is no longer in the keyring.
    Unknown,
}

/// Returns `true` if a stored text is a fingerprint.
#[must_use]
pub fn is_fingerprint(stored: &str) -> bool {
    stored.starts_with(PREFIX)
}

impl Keyring {
    /// Returns the fingerprint of an account's password.
    ///
    /// # Errors
    /// Returns an internal error if the key cannot be used.
    pub fn fingerprint(&self, account_id: &str, version: &str) -> Result<String, Failure> {
        fingerprint(&self.current(), account_id, version)
    }

    /// Compares a stored fingerprint with the current version of an account's password.
    ///
    /// # Errors
    /// Returns an internal error if a key cannot be used.
    pub fn compare_fingerprint(
        &self,
        stored: &str,
        account_id: &str,
        version: &str,
    ) -> Result<Comparison, Failure> {
        let has_key = |key: &Arc<Key>| {
            let rest = stored.strip_prefix(PREFIX);
            rest.is_some_and(|rest| rest.starts_with(&format!("{}:", hexadecimal::lower(&key.id))))
        };
        let Some(key) = self.all().into_iter().find(has_key) else {
            return Ok(Comparison::Unknown);
        };
        let expected = fingerprint(&key, account_id, version)?;
        if !bool::from(expected.as_bytes().ct_eq(stored.as_bytes())) {
            return Ok(Comparison::Different);
        }
        Ok(if key.id == self.current().id {
            Comparison::Same
        } else {
            Comparison::SameWithEarlierKey
        })
    }
}

fn fingerprint(key: &Key, account_id: &str, version: &str) -> Result<String, Failure> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.fingerprint.as_slice())
        .map_err(|error| Failure::internal(error.to_string()))?;
    // An account's id contains no NUL, so different pairs of id and version have different HMAC
    // inputs.
    for part in [account_id, "\0", version] {
        mac.update(part.as_bytes());
    }
    let (id, mac) = (
        hexadecimal::lower(&key.id),
        hexadecimal::lower(&mac.finalize().into_bytes()),
    );
    Ok(format!("{PREFIX}{id}:{mac}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::testing::keyring;

    #[test]
    fn a_fingerprint_differs_by_account_and_by_version() {
        let keys = keyring(&[1]);
        let stored = keys.fingerprint("a", "1").unwrap();
        assert!(is_fingerprint(&stored) && !stored.contains("a:1"));
        let compare = |account, version| keys.compare_fingerprint(&stored, account, version);
        assert_eq!(compare("a", "1").unwrap(), Comparison::Same);
        assert_eq!(compare("a", "2").unwrap(), Comparison::Different);
        assert_eq!(compare("b", "1").unwrap(), Comparison::Different);
    }

    #[test]
    fn a_new_key_does_not_change_a_password() {
        let stored = keyring(&[1]).fingerprint("a", "1").unwrap();
        let rotated = keyring(&[2, 1]);
        let compare = |version| rotated.compare_fingerprint(&stored, "a", version).unwrap();
        assert_eq!(compare("1"), Comparison::SameWithEarlierKey);
        assert_eq!(compare("2"), Comparison::Different);
        let removed = keyring(&[2]).compare_fingerprint(&stored, "a", "2");
        assert_eq!(removed.unwrap(), Comparison::Unknown);
    }

    #[test]
    fn other_texts_are_no_fingerprints() {
        for stored in ["", "$argon2id$v=19$x", "fingerprint:", "fingerprint:00:00"] {
            let compared = keyring(&[1]).compare_fingerprint(stored, "a", "1");
            assert_eq!(compared.unwrap(), Comparison::Unknown, "{stored}");
        }
    }
}
