//! The public keys that verify signatures: ECDSA over P-256, as `cosign generate-key-pair` creates
//! them. Verification only.

use std::path::Path;

use latchmail_core::error::StartError;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use tokio_rustls::rustls::pki_types::SubjectPublicKeyInfoDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

/// The DER encoding of a public key on P-256 (RFC 5480) up to the point. Its algorithm and its
/// lengths are fixed, so it is the same for all keys.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The length of an uncompressed point on P-256 in bytes.
const POINT_LENGTH: usize = 65;

/// The configured keys.
#[derive(Debug)]
pub(crate) struct Keys(Vec<UnparsedPublicKey<Vec<u8>>>);

impl Keys {
    /// Reads the keys.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or contains no usable key.
    pub(crate) fn read(files: &[String]) -> Result<Self, StartError> {
        let keys = files.iter().map(|file| {
            let unusable = |reason: &str| {
                StartError::new(format!("the key {file} of `registry.keys` {reason}"))
            };
            let pem = std::fs::read(Path::new(file))
                .map_err(|error| unusable(&format!("cannot be read: {error}")))?;
            parse(&pem).ok_or_else(|| {
                unusable(
                    "is not a public key on P-256 in PEM, as `cosign generate-key-pair` creates it",
                )
            })
        });
        keys.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether one of the keys has made a signature (DER) of `message`.
    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0
            .iter()
            .any(|key| key.verify(message, signature).is_ok())
    }
}

fn parse(pem: &[u8]) -> Option<UnparsedPublicKey<Vec<u8>>> {
    let key = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
    let encoded: &[u8] = &key;
    let point = encoded.strip_prefix(&P256_PREFIX)?;
    let is_uncompressed = point.len() == POINT_LENGTH && point.first() == Some(&4);
    is_uncompressed.then(|| UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key of `openssl ecparam -genkey -name prime256v1`, and its signature of `latchmail`
    /// (`openssl dgst -sha256 -sign`).
    const KEY: &[u8] = include_bytes!("keys/key.pem");
    const SIGNATURE: &[u8] = include_bytes!("keys/signature.der");
    /// Keys of `openssl` on P-384 and with RSA.
    const OTHER_KEYS: [&[u8]; 2] = [
        include_bytes!("keys/p384.pem"),
        include_bytes!("keys/rsa.pem"),
    ];

    #[test]
    fn a_signature_of_openssl_is_verified() {
        let keys = Keys(vec![parse(KEY).unwrap()]);
        assert!(keys.verify(b"latchmail", SIGNATURE));
        assert!(!keys.verify(b"latchmai1", SIGNATURE));
        assert!(!keys.verify(b"latchmail", b""));
        assert!(!Keys(Vec::new()).verify(b"latchmail", SIGNATURE));
    }

    #[test]
    fn other_keys_are_refused() {
        for pem in OTHER_KEYS {
            assert!(parse(pem).is_none());
        }
        assert!(parse(b"").is_none());
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        let error = Keys::read(std::slice::from_ref(&path)).unwrap_err();
        assert!(error.to_string().contains(&path), "{error}");
    }
}
