//! Generates random secrets and ids. Computes hashes of secrets for the directory.
//!
//! All randomness is from the operating system. Random secrets cannot be guessed, so a fast hash
//! function is sufficient. The crate `latchmail-accounts` hashes the passwords of users.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::error::Failure;
use crate::hexadecimal;

/// The base32 alphabet (RFC 4648, section 6) in lower case. It has 32 symbols, so five bits of a
/// random byte select a symbol without bias.
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

const LETTERS_AND_DIGITS: &[u8; 62] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Length of the selector at the start of an app password, in characters.
const SELECTOR: usize = 8;

/// Returns random bytes from the operating system.
///
/// # Errors
/// Returns an internal error if the operating system provides no randomness.
pub fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Failure> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(Failure::internal)?;
    Ok(bytes)
}

/// Returns `N` random symbols of `[a-z2-7]`. Each symbol contains five random bits.
///
/// # Errors
/// Returns an internal error if the operating system provides no randomness.
pub fn symbols<const N: usize>() -> Result<Zeroizing<String>, Failure> {
    let bytes = random::<N>()?;
    let mut text = Zeroizing::new(String::with_capacity(N));
    text.extend(bytes.iter().map(|byte| symbol(*byte)));
    Ok(text)
}

/// Returns `length` random letters and digits, all equally likely. 43 letters and digits contain
/// 256 random bits.
///
/// # Errors
/// Returns an internal error if the operating system provides no randomness.
pub fn letters_and_digits(length: usize) -> Result<Zeroizing<String>, Failure> {
    let mut text = Zeroizing::new(String::with_capacity(length));
    while text.len() < length {
        // 248 is a multiple of 62. Bytes from 248 to 255 are skipped, because otherwise some
        // symbols would be more likely than others.
        let random = random::<64>()?;
        let fair = random.iter().filter(|byte| **byte < 248);
        let missing = length - text.len();
        text.extend(
            fair.take(missing)
                .map(|byte| char::from(LETTERS_AND_DIGITS[usize::from(byte % 62)])),
        );
    }
    Ok(text)
}

/// Number of letters and digits after the prefix. 43 letters and digits contain 256 random bits.
const LENGTH: usize = 43;

/// A secret that consists of a prefix and 43 letters and digits (256 random bits). The prefix
/// identifies the purpose of the secret.
#[derive(Clone)]
pub struct Prefixed {
    secret: SecretString,
    hash: String,
}

impl fmt::Debug for Prefixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefixed").finish_non_exhaustive()
    }
}

impl Prefixed {
    /// Generates a secret with this prefix. All letters and digits are equally likely.
    ///
    /// # Errors
    /// Returns an internal error if the operating system provides no randomness.
    pub fn generate(prefix: &str) -> Result<Self, Failure> {
        let mut text = Zeroizing::new(String::with_capacity(prefix.len() + LENGTH));
        text.push_str(prefix);
        text.push_str(&letters_and_digits(LENGTH)?);
        Ok(Self::of(SecretString::from(text.as_str())))
    }

    /// Parses a secret that a client sent. Returns `None` if `text` does not consist of `prefix`
    /// and 43 letters and digits.
    #[must_use]
    pub fn parse(prefix: &str, text: &str) -> Option<Self> {
        let symbols = text.strip_prefix(prefix)?;
        let shaped =
            symbols.len() == LENGTH && symbols.bytes().all(|byte| byte.is_ascii_alphanumeric());
        shaped.then(|| Self::of(SecretString::from(text)))
    }

    fn of(secret: SecretString) -> Self {
        let hash = sha256_hex(secret.expose_secret());
        Self { secret, hash }
    }

    /// Returns the secret with its prefix.
    #[must_use]
    pub fn secret(&self) -> &SecretString {
        &self.secret
    }

    /// Returns the SHA-256 hash of the secret with its prefix, as lower-case hexadecimal.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

/// Generates an opaque id: 24 symbols of `[a-z2-7]` with 119 random bits. The first symbol is a
/// letter. The id is valid as a folder name on a mail server and in a URL.
///
/// # Errors
/// Returns an internal error if the operating system provides no randomness.
pub fn id() -> Result<String, Failure> {
    let bytes = random::<24>()?;
    let (first, rest) = bytes.split_at(1);
    // The first 16 symbols of the alphabet are letters, so four bits select a letter.
    let first = first.iter().map(|byte| symbol(byte & 15));
    Ok(first.chain(rest.iter().map(|byte| symbol(*byte))).collect())
}

/// An app password: 32 symbols of `[a-z2-7]`. The first 8 symbols are the public selector. The
/// other 24 symbols contain 120 secret bits.
#[derive(Clone, Debug)]
pub struct AppPassword(SecretString);

impl AppPassword {
    /// Generates an app password.
    ///
    /// # Errors
    /// Returns an internal error if the operating system provides no randomness.
    pub fn generate() -> Result<Self, Failure> {
        Ok(Self(SecretString::from(symbols::<32>()?.as_str())))
    }

    /// Parses an app password. Returns `None` if the text does not have the form of an app
    /// password.
    #[must_use]
    pub fn parse(text: &SecretString) -> Option<Self> {
        let bytes = text.expose_secret().as_bytes();
        let has_form = bytes.len() == 32 && bytes.iter().all(|byte| BASE32.contains(byte));
        has_form.then(|| Self(text.clone()))
    }

    /// Returns the public selector, which is unique. The mail server finds the app password in the
    /// directory by the selector.
    #[must_use]
    pub fn selector(&self) -> &str {
        self.0.expose_secret().get(..SELECTOR).unwrap_or_default()
    }

    /// Returns the SHA-256 hash of the app password, including the selector, as lower-case
    /// hexadecimal. The mail server compares this hash at log-in.
    #[must_use]
    pub fn hash(&self) -> String {
        sha256_hex(self.0.expose_secret())
    }

    /// Returns the app password itself.
    #[must_use]
    pub fn secret(&self) -> &SecretString {
        &self.0
    }
}

/// Generates a refresh token: 43 symbols of base64url with 256 random bits. The directory stores
/// only the hash of the token ([`sha256_hex`]).
///
/// # Errors
/// Returns an internal error if the operating system returns no random bytes.
pub fn refresh_token() -> Result<SecretString, Failure> {
    let bytes = random::<32>()?;
    let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice()));
    Ok(SecretString::from(text.as_str()))
}

/// Returns the SHA-256 hash of a text as 64 lower-case hexadecimal digits.
#[must_use]
pub fn sha256_hex(text: &str) -> String {
    sha256_hex_of_bytes(text.as_bytes())
}

/// Returns the SHA-256 hash of bytes as 64 lower-case hexadecimal digits.
#[must_use]
pub fn sha256_hex_of_bytes(bytes: &[u8]) -> String {
    hexadecimal::lower(&Sha256::digest(bytes))
}

fn symbol(byte: u8) -> char {
    char::from(BASE32[usize::from(byte & 31)])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn an_id_is_a_letter_and_then_letters_and_digits() {
        let ids: HashSet<String> = (0..500).map(|_| id().unwrap()).collect();
        assert_eq!(ids.len(), 500);
        for id in ids {
            assert_eq!(id.len(), 24);
            assert!(id.starts_with(|c: char| c.is_ascii_lowercase()), "{id}");
            assert!(
                id.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()),
                "{id}"
            );
        }
    }

    #[test]
    fn an_app_password_is_32_symbols_of_which_the_first_8_select() {
        let password = AppPassword::generate().unwrap();
        let text = password.secret().expose_secret();
        assert_eq!(text.len(), 32);
        assert!(text.bytes().all(|b| BASE32.contains(&b)), "{text}");
        assert_eq!(password.selector(), &text[..8]);
        assert_eq!(password.hash(), sha256_hex(text));
        assert!(!format!("{password:?}").contains(text));
        let parsed = AppPassword::parse(password.secret()).unwrap();
        assert_eq!(parsed.hash(), password.hash());
        for other in ["", &text[1..], &format!("{text}a"), &text.to_uppercase()] {
            assert!(AppPassword::parse(&other.into()).is_none(), "{other}");
        }
    }

    #[test]
    fn a_refresh_token_is_43_symbols_of_base64url() {
        let token = refresh_token().unwrap();
        let text = token.expose_secret();
        assert_eq!(text.len(), 43);
        assert_eq!(URL_SAFE_NO_PAD.decode(text).unwrap().len(), 32);
    }

    #[test]
    fn a_hash_is_lower_case_hexadecimal() {
        assert_eq!(
            sha256_hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
