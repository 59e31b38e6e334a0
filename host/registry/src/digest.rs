//! Digests of content. Only SHA-256 is used: every registry supports it.

use std::fmt;

use latchmail_core::hexadecimal;
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "sha256:";

/// The SHA-256 digest of content, as `sha256:` and 64 hexadecimal digits in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest(String);

impl Digest {
    /// Returns the digest of `content`.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let digits = hexadecimal::lower(&Sha256::digest(content));
        Self(format!("{PREFIX}{digits}"))
    }

    /// Parses a digest. Returns `None` for another algorithm and for an invalid digest.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_valid = digits.len() == 64 && digits.bytes().all(is_digit);
        is_valid.then(|| Self(text.to_owned()))
    }

    /// Returns the digest as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the hexadecimal digits.
    pub(crate) fn digits(&self) -> &str {
        self.0.trim_start_matches(PREFIX)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
