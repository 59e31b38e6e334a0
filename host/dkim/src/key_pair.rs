//! Generates the key pair of a domain: RSA with 2048 bits, which every verifier accepts (RFC 8301,
//! section 3.2).
//!
//! The `rsa` crate generates the keys, because `ring` cannot generate RSA keys. `ring` signs the
//! messages. To use the timing side channel of `rsa` (RUSTSEC-2023-0071), an attacker must observe
//! many operations of `rsa` with one private key. The generation of a key is only one operation.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_core::error::Failure;
use latchmail_core::hexadecimal;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use rsa::RsaPrivateKey;
use rsa::pkcs8::{EncodePrivateKey as _, EncodePublicKey as _};
use rsa::rand_core::OsRng;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::error::Error;

const BITS: usize = 2048;

/// The number of hexadecimal digits in a selector. The digits are a hash of the public key. 16
/// digits are enough that all keys of a domain have different selectors, including the keys of
/// previous owners.
const SELECTOR_DIGITS: usize = 16;

/// A private key, its public key and the selector.
pub struct KeyPair {
    private: Zeroizing<Vec<u8>>,
    public: String,
    selector: String,
}

impl KeyPair {
    /// Generates a key pair on a blocking thread, because the generation needs some tenths of a
    /// second.
    ///
    /// # Errors
    /// Returns [`Error::Generation`] if the system's random number generator fails or no thread can
    /// be started.
    pub async fn generate() -> Result<Self, Error> {
        tokio::task::spawn_blocking(Self::generate_blocking)
            .await
            .map_err(|error| Error::Generation(error.to_string()))?
    }

    /// Generates a key pair on the current thread.
    pub(crate) fn generate_blocking() -> Result<Self, Error> {
        let failed = |error: &dyn fmt::Display| Error::Generation(error.to_string());
        let key = RsaPrivateKey::new(&mut OsRng, BITS).map_err(|e| failed(&e))?;
        let private = key.to_pkcs8_der().map_err(|e| failed(&e))?;
        let public = key
            .to_public_key()
            .to_public_key_der()
            .map_err(|e| failed(&e))?;
        Ok(Self {
            private: private.to_bytes(),
            public: STANDARD.encode(public.as_bytes()),
            selector: selector(public.as_bytes()),
        })
    }

    /// Returns the private key as PKCS #8 in DER.
    #[must_use]
    pub fn private_key(&self) -> &[u8] {
        &self.private
    }

    /// Returns the public key as `SubjectPublicKeyInfo` in DER, encoded in base64.
    #[must_use]
    pub fn public_key(&self) -> &str {
        &self.public
    }

    /// Returns the selector under which the key is published. The selector is derived from the key,
    /// so two keys of a domain have different selectors.
    #[must_use]
    pub fn selector(&self) -> &str {
        &self.selector
    }

    /// Returns the private key, encrypted for `domain`, in the form that the directory stores.
    ///
    /// # Errors
    /// Returns a 500 failure if the system's random number generator fails.
    pub fn sealed(&self, keys: &Keyring, domain: &str) -> Result<Vec<u8>, Failure> {
        keys.seal_bytes(Purpose::DkimKey, domain, &self.private)
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("selector", &self.selector)
            .finish_non_exhaustive()
    }
}

fn selector(public_key: &[u8]) -> String {
    let digest = Sha256::digest(public_key);
    format!("lm{}", hexadecimal::lower(&digest[..SELECTOR_DIGITS / 2]))
}

#[cfg(test)]
mod tests {
    use latchmail_core::keyring::testing::keyring;
    use ring::rsa;

    use super::*;

    #[tokio::test]
    async fn a_new_key_can_sign_and_is_unique() {
        let (one, other) = (
            KeyPair::generate().await.unwrap(),
            KeyPair::generate().await.unwrap(),
        );
        for pair in [&one, &other] {
            let signing = rsa::KeyPair::from_pkcs8(pair.private_key()).unwrap();
            assert_eq!(signing.public().modulus_len() * 8, BITS);
            let public = STANDARD.decode(pair.public_key()).unwrap();
            // A SubjectPublicKeyInfo ends with the PKCS #1 key that `ring` returns.
            assert!(public.ends_with(signing.public().as_ref()));
            assert_eq!(public.len(), 294);
            assert!(
                pair.selector().starts_with("lm") && pair.selector().len() == 2 + SELECTOR_DIGITS
            );
            let shown = format!("{pair:?}");
            assert!(!shown.contains("private"), "{shown}");
        }
        assert_ne!(one.public_key(), other.public_key());
        assert_ne!(one.selector(), other.selector());
    }

    #[tokio::test]
    async fn a_sealed_key_opens_only_for_its_own_domain() {
        let pair = KeyPair::generate().await.unwrap();
        let keys = keyring(&[1]);
        let sealed = pair.sealed(&keys, "ada.example").unwrap();
        let open = |domain, sealed: &[u8]| keys.open_bytes(Purpose::DkimKey, domain, sealed);
        assert_eq!(
            open("ada.example", &sealed).unwrap().as_slice(),
            pair.private_key()
        );
        assert!(open("bob.example", &sealed).is_none());
        assert!(
            keys.open_bytes(Purpose::ApiToken, "ada.example", &sealed)
                .is_none()
        );
    }
}
