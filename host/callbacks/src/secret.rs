//! Secrets and signatures of Standard Webhooks: HMAC-SHA256 over the id, the time and the body of a
//! message.
//!
//! The crate standardwebhooks 1.0.1 is not used. The crate adds a second HMAC implementation, two
//! more versions of dependencies, and a parser of headers, for the few lines of [`Secret::sign`].

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use latchmail_core::error::Failure;
use latchmail_core::secrets;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::{Zeroize as _, Zeroizing};

/// The prefix of the text of a secret.
const PREFIX: &str = "whsec_";
/// The allowed lengths of a secret without prefix and encoding, in bytes.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// The text of a secret: `whsec_` and 24 to 64 bytes in base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Creates a random secret.
    pub(crate) fn generate() -> Result<Self, Failure> {
        let bytes = secrets::random::<32>()?;
        let encoded = Zeroizing::new(STANDARD.encode(bytes.as_slice()));
        Ok(Self(format!("{PREFIX}{}", *encoded)))
    }

    /// Parses a secret of a client. Returns `None` if the text has another form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let secret = Self(text.to_owned());
        let length = secret.key()?.len();
        LENGTHS.contains(&length).then_some(secret)
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    fn key(&self) -> Option<Zeroizing<Vec<u8>>> {
        let encoded = self.0.strip_prefix(PREFIX)?;
        Some(Zeroizing::new(STANDARD.decode(encoded).ok()?))
    }

    /// Returns the signature of a message, for the header `webhook-signature`. `seconds` is the
    /// value of the header `webhook-timestamp`.
    fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key()?).ok()?;
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        Some(format!(
            "v1,{}",
            STANDARD.encode(mac.finalize().into_bytes())
        ))
    }
}

/// Returns the value of the header `webhook-signature`: one signature for each secret.
pub(crate) fn signatures(secrets: &[&Secret], id: &str, seconds: i64, body: &[u8]) -> String {
    let signatures = secrets.iter().filter_map(|one| one.sign(id, seconds, body));
    signatures.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_equals_the_example_of_the_specification() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signed = signatures(
            &[&secret],
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            body,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let other = Secret::generate().unwrap();
        let both = signatures(&[&other, &secret], "id", 1, body);
        assert_eq!(both.split(' ').count(), 2);
    }

    #[test]
    fn a_secret_has_24_to_64_bytes_of_standard_base64() {
        let secret = |length| format!("whsec_{}", STANDARD.encode(vec![255; length]));
        for length in [24, 32, 64] {
            assert!(Secret::parse(&secret(length)).is_some(), "{length}");
        }
        for text in [
            secret(23),
            secret(65),
            secret(24).replace("whsec_", ""),
            secret(24).replace('/', "_"),
            "whsec_".into(),
        ] {
            assert!(Secret::parse(&text).is_none(), "{text}");
        }
        let generated = Secret::generate().unwrap();
        assert!(Secret::parse(generated.text()).is_some());
        assert_eq!(format!("{generated:?}"), "Secret");
    }
}
