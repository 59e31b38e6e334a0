//! The secret envelope id of a sent message (RFC 3461, section 4.4). The mail servers that transfer
//! the message return the id in their delivery reports (RFC 3464, section 2.2.1), so a report with
//! the id comes from a server that had the message.
//!
//! An id consists of 128 random bits and of their authentication code. So the milter recognizes the
//! ids of this service without a look-up, and an attacker can neither guess an id nor make the
//! milter write to the database. The database contains only the hash of an id.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use latchmail_core::hexadecimal;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// The length of each half of an id: 16 bytes in hexadecimal digits.
const HALF: usize = 32;

/// The secret envelope id of a sent message.
#[derive(Clone)]
pub struct EnvelopeId(Zeroizing<String>);

impl EnvelopeId {
    /// Generates an id. The key is the one of the milter's marks.
    ///
    /// # Errors
    /// Returns an error if the operating system has no random numbers.
    pub fn generate(key: &[u8]) -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new([0; HALF / 2]);
        getrandom::fill(&mut *bytes)?;
        let random = Zeroizing::new(hexadecimal::lower(&*bytes));
        let code = code(key, &random);
        Ok(Self(Zeroizing::new([random.as_str(), &code].concat())))
    }

    /// Parses an id of this service. Returns `None` if the service did not generate the id.
    #[must_use]
    pub fn parse(key: &[u8], text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() != 2 * HALF || !text.is_ascii() {
            return None;
        }
        let (random, given) = text.split_at(HALF);
        let is_valid = bool::from(code(key, random).as_bytes().ct_eq(given.as_bytes()));
        is_valid.then(|| Self(Zeroizing::new(text.to_owned())))
    }

    /// Returns the id as it is in the command MAIL. The text needs no encoding.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the hash under which the database has the message, in hexadecimal digits.
    #[must_use]
    pub fn hash(&self) -> String {
        hexadecimal::lower(&Sha256::digest(self.0.as_bytes()))
    }
}

impl fmt::Debug for EnvelopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvelopeId")
    }
}

/// Returns the authentication code of the random half.
fn code(key: &[u8], random: &str) -> String {
    let mut code = Hmac::<Sha256>::new_from_slice(key)
        .unwrap_or_else(|_| unreachable!("HMAC accepts keys of any length"));
    code.update(b"latchmail envelope id 1");
    code.update(random.as_bytes());
    let code = code.finalize().into_bytes();
    hexadecimal::lower(&code[..HALF / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_recognized_with_its_key_only() {
        let id = EnvelopeId::generate(b"key").unwrap();
        let other = EnvelopeId::generate(b"key").unwrap();
        assert_ne!(id.as_str(), other.as_str());
        // RFC 3461, section 4.4: at most 100 characters.
        assert_eq!(id.as_str().len(), 64);
        let parsed = EnvelopeId::parse(b"key", &format!(" {} ", id.as_str())).unwrap();
        assert_eq!(parsed.hash(), id.hash());
        assert!(EnvelopeId::parse(b"other", id.as_str()).is_none());
        let mixed = format!("{}{}", &id.as_str()[..HALF], &other.as_str()[HALF..]);
        let shorter = &id.as_str()[1..];
        let long = id.as_str().replace('a', "é");
        for forged in [&*mixed, shorter, "", &"0".repeat(64), &long] {
            assert!(
                forged == id.as_str() || EnvelopeId::parse(b"key", forged).is_none(),
                "{forged}"
            );
        }
        assert_eq!(format!("{id:?}"), "EnvelopeId");
    }
}
