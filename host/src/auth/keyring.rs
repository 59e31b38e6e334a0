//! Derives the keys of the service: a sealing key and a signing key from each key of the key file, by HKDF-SHA256 (RFC 5869). Each use has
//! its own label, so a derived key reveals nothing about another.
//!
//! Sealing is in [`super::sealing`], signing in [`super::access_token`], the file in [`super::key_file`].

use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::EncodePrivateKey;
use hkdf::Hkdf;
use jsonwebtoken::{DecodingKey, EncodingKey};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::key_file;
use super::sealing::SealingKey;
use crate::error::StartError;

const KEY_ID: &str = "latchmail v1 key id";
const SEALING: &str = "latchmail v1 sealing XChaCha20-Poly1305";
const SIGNING: &str = "latchmail v1 signing Ed25519";

/// Number of bytes of a key's id at the start of sealed bytes.
pub(crate) const KEY_ID_LENGTH: usize = 8;

/// The service's keys: one current key and any number of earlier keys.
pub struct Keyring {
    current: Key,
    earlier: Vec<Key>,
}

/// One key and the keys that are derived from it.
pub(crate) struct Key {
    /// Id of the key, written before what it sealed.
    pub(crate) id: [u8; KEY_ID_LENGTH],
    /// Key that seals and opens.
    pub(crate) sealing: SealingKey,
    /// The `kid` of tokens that the key signed: the public key's thumbprint (RFC 7638, RFC 8037 appendix A.3).
    pub(crate) kid: String,
    /// Key that signs. It is erased when it is dropped.
    pub(crate) signing: EncodingKey,
    /// Key that verifies.
    pub(crate) verifying: DecodingKey,
}

impl Keyring {
    /// Loads the keys of a file, and creates the file if it is missing.
    ///
    /// # Errors
    /// Returns an error if the file cannot be used.
    pub fn load(path: &Path) -> Result<Self, StartError> {
        Self::of(&key_file::load(path)?)
    }

    /// Creates a keyring of these keys, the current one first.
    pub(crate) fn of(keys: &[key_file::Key]) -> Result<Self, StartError> {
        let mut keys = keys.iter().map(Key::derive);
        let current = keys
            .next()
            .ok_or_else(|| StartError::new("the service has no key"))??;
        Ok(Self {
            current,
            earlier: keys.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the key that seals and signs.
    pub(crate) fn current(&self) -> &Key {
        &self.current
    }

    /// Returns the key with this `kid`.
    pub(crate) fn by_kid(&self, kid: &str) -> Option<&Key> {
        self.all().find(|key| key.kid == kid)
    }

    /// Returns the key with this id.
    pub(crate) fn by_id(&self, id: [u8; KEY_ID_LENGTH]) -> Option<&Key> {
        self.all().find(|key| key.id == id)
    }

    fn all(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.current).chain(&self.earlier)
    }
}

impl Key {
    fn derive(key: &key_file::Key) -> Result<Self, StartError> {
        let unusable = |_| {
            StartError::new(
                "the service's key cannot be used: no signing key can be derived from it",
            )
        };
        let secret = Hkdf::<Sha256>::new(None, key.as_slice());
        let signing = SigningKey::from_bytes(&*expand::<32>(&secret, SIGNING)?);
        let public = signing.verifying_key();
        Ok(Self {
            id: *expand(&secret, KEY_ID)?,
            sealing: SealingKey(expand(&secret, SEALING)?),
            kid: thumbprint(public.as_bytes()),
            signing: EncodingKey::from_ed_der(signing.to_pkcs8_der().map_err(unusable)?.as_bytes()),
            verifying: DecodingKey::from_ed_der(public.as_bytes()),
        })
    }
}

fn expand<const N: usize>(
    secret: &Hkdf<Sha256>,
    label: &str,
) -> Result<Zeroizing<[u8; N]>, StartError> {
    let mut out = Zeroizing::new([0; N]);
    secret
        .expand(label.as_bytes(), out.as_mut_slice())
        .map_err(|e| StartError::new(format!("the service's key cannot be used: {e}")))?;
    Ok(out)
}

/// Returns the thumbprint of an Ed25519 public key: SHA-256 of its JWK's required members in lexicographic order.
fn thumbprint(public: &[u8; 32]) -> String {
    let x = URL_SAFE_NO_PAD.encode(public);
    let jwk = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    URL_SAFE_NO_PAD.encode(Sha256::digest(jwk))
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.all().map(|key| &key.kid))
            .finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a keyring with one key per byte; each key is that byte repeated.
    pub(crate) fn keyring(keys: &[u8]) -> Keyring {
        let keys: Vec<_> = keys
            .iter()
            .map(|byte| Zeroizing::new([*byte; 32]))
            .collect();
        Keyring::of(&keys).unwrap()
    }

    #[test]
    fn a_kid_is_the_thumbprint_of_the_public_key() {
        // RFC 8037, appendix A.2 and A.3.
        let public = URL_SAFE_NO_PAD
            .decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
            .unwrap();
        assert_eq!(
            thumbprint(&public.try_into().unwrap()),
            "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
        );
    }

    #[test]
    fn the_same_key_derives_the_same_and_another_key_something_else() {
        let (one, same, other) = (keyring(&[1]), keyring(&[1]), keyring(&[2]));
        assert_eq!(one.current().kid, same.current().kid);
        assert_eq!(*one.current().sealing.0, *same.current().sealing.0);
        assert_ne!(one.current().kid, other.current().kid);
        assert_ne!(*one.current().sealing.0, *other.current().sealing.0);
        assert_ne!(one.current().id, other.current().id);
    }

    #[test]
    fn debug_shows_nothing_but_public_names() {
        let keyring = keyring(&[1, 2]);
        let shown = format!("{keyring:?}");
        assert_eq!(
            shown,
            format!(
                "{{{:?}, {:?}}}",
                keyring.current().kid,
                keyring.earlier[0].kid
            )
        );
    }
}
