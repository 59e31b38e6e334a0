//! Derives the keys of the service. HKDF-SHA256 (RFC 5869) derives a sealing key and a signing key
//! from each key in the key file. The HKDF labels of derived keys are different, so a derived key
//! reveals nothing about any other derived key.
//!
//! A [`Keyring`] can change while the service runs ([`Keyring::replace`]). All users of the keyring
//! see the change at their next call.
//!
//! [`crate::sealing`] contains the sealing algorithm. [`crate::key_file`] reads the key file.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::EncodePrivateKey;
use hkdf::Hkdf;
use jsonwebtoken::{DecodingKey, EncodingKey};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::error::{Failure, StartError};
use crate::key_file;
use crate::sealing::{Purpose, SealingKey, text};

const KEY_ID: &str = "latchmail v1 key id";
const SEALING: &str = "latchmail v1 sealing XChaCha20-Poly1305";
const SIGNING: &str = "latchmail v1 signing Ed25519";
const FINGERPRINT: &str = "latchmail v1 password fingerprint HMAC-SHA-256";

/// Length of a key's id, in bytes.
const KEY_ID_LENGTH: usize = 8;

/// The id of a key. Sealed bytes start with the id of the sealing key.
pub type KeyId = [u8; KEY_ID_LENGTH];

/// The service's keys. The list is never empty, and its first key is the current key.
pub struct Keyring(ArcSwap<Vec<Arc<Key>>>);

/// The keys that are derived from one key in the key file.
pub struct Key {
    /// Id of the key. Bytes that the key encrypted start with this id.
    pub id: KeyId,
    /// Key that seals (encrypts) and opens (decrypts) stored secrets.
    sealing: SealingKey,
    /// Key for the fingerprints of passwords ([`crate::fingerprint`]).
    pub(crate) fingerprint: Zeroizing<[u8; 32]>,
    /// The `kid` of tokens that the key signed: the public key's thumbprint (RFC 7638, RFC 8037
    /// appendix A.3).
    pub kid: String,
    /// Key that signs tokens. The memory of this key is erased on drop.
    pub signing: EncodingKey,
    /// Key that verifies the signatures of tokens.
    pub verifying: DecodingKey,
}

impl Keyring {
    /// Loads the keys in the key file `path`. Creates a missing file with a new key.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created, read or parsed.
    pub fn load(path: &Path) -> Result<Self, StartError> {
        Self::of(&key_file::load(path)?)
    }

    /// Creates a keyring. The first key in `keys` is the current key.
    ///
    /// # Errors
    /// Returns an error if `keys` is empty or contains an unusable key.
    pub fn of(keys: &[key_file::Key]) -> Result<Self, StartError> {
        if keys.is_empty() {
            return Err(StartError::new("the service has no key"));
        }
        Ok(Self(ArcSwap::from_pointee(derived(keys)?)))
    }

    /// Replaces all keys in one step. The key with this `kid` becomes the current key. Returns
    /// `false` and changes nothing if `keys` does not contain this key.
    ///
    /// # Errors
    /// Returns an error if `keys` contains an unusable key. The keyring does not change in this
    /// case.
    pub fn replace(&self, keys: &[key_file::Key], kid: &str) -> Result<bool, StartError> {
        Ok(self.store(derived(keys)?, kid))
    }

    /// Makes the key with this `kid` the current key. Returns `false` and changes nothing if this
    /// keyring does not contain this key.
    pub fn select(&self, kid: &str) -> bool {
        self.store(self.all(), kid)
    }

    fn store(&self, mut keys: Vec<Arc<Key>>, current: &str) -> bool {
        let Some(index) = keys.iter().position(|key| key.kid == current) else {
            return false;
        };
        keys[..=index].rotate_right(1);
        self.0.store(Arc::new(keys));
        true
    }

    /// Returns the current key, which encrypts new secrets and signs new tokens.
    #[must_use]
    pub fn current(&self) -> Arc<Key> {
        Arc::clone(&self.0.load()[0])
    }

    /// Returns the key with this `kid`, or `None` if there is no such key.
    #[must_use]
    pub fn by_kid(&self, kid: &str) -> Option<Arc<Key>> {
        self.find(|key| key.kid == kid)
    }

    /// Returns the key with this id, or `None` if there is no such key.
    #[must_use]
    pub fn by_id(&self, id: KeyId) -> Option<Arc<Key>> {
        self.find(|key| key.id == id)
    }

    fn find(&self, is_wanted: impl Fn(&Key) -> bool) -> Option<Arc<Key>> {
        let keys = self.0.load();
        keys.iter().find(|key| is_wanted(key)).cloned()
    }

    /// Returns all keys, the current key first.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Key>> {
        self.0.load().to_vec()
    }

    /// Seals (encrypts) `secret` with the current key. The result can be opened (decrypted) only
    /// for the same purpose and the same database row `row`.
    ///
    /// # Errors
    /// Returns an internal error if the operating system provides no randomness.
    pub fn seal(
        &self,
        purpose: Purpose,
        row: &str,
        secret: &SecretString,
    ) -> Result<Vec<u8>, Failure> {
        self.seal_bytes(purpose, row, secret.expose_secret().as_bytes())
    }

    /// Seals bytes in the same way as [`Keyring::seal`].
    ///
    /// # Errors
    /// Returns an internal error if the operating system provides no randomness.
    pub fn seal_bytes(
        &self,
        purpose: Purpose,
        row: &str,
        secret: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let key = self.current();
        let sealed = key.sealing.seal_bytes(purpose, row, secret)?;
        Ok([key.id.as_slice(), &sealed].concat())
    }

    /// Seals bytes in the same way as [`Keyring::seal_bytes`], but the result is the same for the
    /// same purpose, row and bytes until the current key changes.
    ///
    /// # Errors
    /// Returns an internal error if the key cannot be used.
    pub fn seal_repeatably(
        &self,
        purpose: Purpose,
        row: &str,
        bytes: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let key = self.current();
        let sealed = key.sealing.seal_repeatably(purpose, row, bytes)?;
        Ok([key.id.as_slice(), &sealed].concat())
    }

    /// Returns `true` if these bytes were sealed (encrypted) with the current key.
    #[must_use]
    pub fn is_current(&self, sealed: &[u8]) -> bool {
        sealed.starts_with(&self.current().id)
    }

    /// Opens (decrypts) bytes that [`Keyring::seal`] sealed with a key of this keyring. Returns
    /// `None` if this keyring does not contain the key, or if the bytes were sealed for another
    /// purpose or row.
    #[must_use]
    pub fn open(&self, purpose: Purpose, row: &str, sealed: &[u8]) -> Option<SecretString> {
        text(&self.open_bytes(purpose, row, sealed)?)
    }

    /// Opens (decrypts) bytes that [`Keyring::seal_bytes`] sealed, in the same way as
    /// [`Keyring::open`].
    #[must_use]
    pub fn open_bytes(
        &self,
        purpose: Purpose,
        row: &str,
        sealed: &[u8],
    ) -> Option<Zeroizing<Vec<u8>>> {
        let (id, sealed) = sealed.split_first_chunk::<KEY_ID_LENGTH>()?;
        self.by_id(*id)?.sealing.open_bytes(purpose, row, sealed)
    }
}

fn derived(keys: &[key_file::Key]) -> Result<Vec<Arc<Key>>, StartError> {
    keys.iter()
        .map(|key| Key::derive(key).map(Arc::new))
        .collect()
}

impl Key {
    /// Derives the keys from one key in the key file.
    ///
    /// # Errors
    /// Returns an error if the key is unusable.
    pub fn derive(key: &key_file::Key) -> Result<Self, StartError> {
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
            fingerprint: expand(&secret, FINGERPRINT)?,
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

/// Returns the thumbprint of an Ed25519 public key. The thumbprint is the SHA-256 hash of the key's
/// JWK, with only the required members in lexicographic order.
fn thumbprint(public: &[u8; 32]) -> String {
    let x = URL_SAFE_NO_PAD.encode(public);
    let jwk = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    URL_SAFE_NO_PAD.encode(Sha256::digest(jwk))
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.all().iter().map(|key| &key.kid))
            .finish()
    }
}

/// Keyrings for tests.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use super::{Keyring, Zeroizing};

    /// Creates a keyring with one key for each byte in `keys`. Each key consists of 32 copies of
    /// its byte.
    ///
    /// # Panics
    /// Panics if `keys` is empty.
    #[must_use]
    pub fn keyring(keys: &[u8]) -> Keyring {
        let keys: Vec<_> = keys
            .iter()
            .map(|byte| Zeroizing::new([*byte; 32]))
            .collect();
        #[expect(clippy::unwrap_used, reason = "only tests call this")]
        Keyring::of(&keys).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::keyring;
    use super::*;

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
                keyring.all()[1].kid
            )
        );
    }

    const ROW: &str = "session-one";

    fn sealed(ring: &Keyring) -> Vec<u8> {
        ring.seal(
            Purpose::WebSession,
            ROW,
            &SecretString::from("app password"),
        )
        .unwrap()
    }

    fn open(ring: &Keyring, row: &str, sealed: &[u8]) -> Option<String> {
        ring.open(Purpose::WebSession, row, sealed)
            .map(|s| s.expose_secret().to_owned())
    }

    #[test]
    fn what_was_sealed_opens() {
        let ring = keyring(&[1]);
        assert_eq!(
            open(&ring, ROW, &sealed(&ring)).as_deref(),
            Some("app password")
        );
        assert_ne!(sealed(&ring), sealed(&ring), "no two nonces are the same");
    }

    #[test]
    fn repeatably_sealed_bytes_are_equal_only_for_equal_values() {
        let (ring, other) = (keyring(&[1]), keyring(&[2]));
        let seal = |ring: &Keyring, purpose, row: &str, bytes: &[u8]| {
            let sealed = ring.seal_repeatably(purpose, row, bytes).unwrap();
            let opened = ring.open_bytes(purpose, row, &sealed).unwrap();
            assert_eq!(opened.as_slice(), bytes);
            sealed
        };
        let (one, two) = (Purpose::ChangeCursor, Purpose::TwoFactor);
        let first = seal(&ring, one, "row", b"bytes");
        assert_eq!(seal(&ring, one, "row", b"bytes"), first);
        // The part after the key's id starts with the nonce.
        let nonce = |sealed: &[u8]| sealed[KEY_ID_LENGTH..KEY_ID_LENGTH + 24].to_vec();
        for different in [
            seal(&ring, two, "row", b"bytes"),
            seal(&ring, one, "rowb", b"ytes"),
            seal(&ring, one, "row", b"bytez"),
            seal(&other, one, "row", b"bytes"),
        ] {
            assert_ne!(nonce(&different), nonce(&first));
        }
    }

    #[test]
    fn sealed_bytes_moved_to_another_row_do_not_open() {
        let ring = keyring(&[1]);
        assert_eq!(open(&ring, "session-two", &sealed(&ring)), None);
        assert_eq!(open(&ring, "", &sealed(&ring)), None);
    }

    #[test]
    fn sealed_bytes_do_not_open_for_another_purpose() {
        let ring = keyring(&[1]);
        let sealed = sealed(&ring);
        assert!(ring.open(Purpose::TwoFactor, ROW, &sealed).is_none());
    }

    #[test]
    fn changed_or_shortened_bytes_do_not_open() {
        let ring = keyring(&[1]);
        let good = sealed(&ring);
        for index in 0..good.len() {
            let mut changed = good.clone();
            changed[index] ^= 1;
            assert_eq!(open(&ring, ROW, &changed), None, "byte {index}");
            assert_eq!(
                open(&ring, ROW, &good[..index]),
                None,
                "the first {index} bytes"
            );
        }
    }

    #[test]
    fn an_earlier_key_still_opens_and_a_foreign_one_does_not() {
        let before = sealed(&keyring(&[1]));
        assert!(open(&keyring(&[2, 1]), ROW, &before).is_some());
        assert!(open(&keyring(&[2]), ROW, &before).is_none());
        let after = sealed(&keyring(&[2, 1]));
        assert!(keyring(&[2, 1]).is_current(&after) && !keyring(&[2, 1]).is_current(&before));
        assert!(
            open(&keyring(&[2]), ROW, &after).is_some(),
            "the first key of the ring seals"
        );
    }

    #[test]
    fn a_keyring_changes_while_it_is_in_use() {
        let ring = keyring(&[1]);
        let before = sealed(&ring);
        let both = [1, 2].map(|byte| Zeroizing::new([byte; 32]));
        let new = keyring(&[2]).current();
        assert!(!ring.replace(&both, "unknown").unwrap());
        assert_eq!(ring.all().len(), 1);
        assert!(ring.replace(&both, &new.kid).unwrap());
        assert_eq!((&ring.current().kid, ring.all().len()), (&new.kid, 2));
        assert!(!ring.is_current(&before) && open(&ring, ROW, &before).is_some());
        assert!(!ring.select("unknown") && ring.select(&ring.all()[1].kid));
        assert!(ring.is_current(&before) && ring.all().len() == 2);
        assert!(ring.replace(&both[1..], &new.kid).unwrap());
        assert_eq!(open(&ring, ROW, &before), None);
        assert!(ring.by_id(new.id).is_some() && ring.all().len() == 1);
    }
}
