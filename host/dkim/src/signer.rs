//! Signs a message for a domain with `ring`: `rsa-sha256`, `relaxed/relaxed` (RFC 6376).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_core::clock::Timestamp;
use ring::digest::{Context, SHA256};
use ring::rand::SystemRandom;
use ring::{rsa, signature};

use super::canonical;
use super::error::Error;

/// The signed header fields, in this order. Fields that other servers may add (Sender, List-…,
/// Resent-…) are not signed.
///
/// If a message contains a field n times, the signature lists the field n + 1 times. So the
/// signature becomes invalid if a field of the same name is added to the message (RFC 6376, section
/// 8.15).
const SIGNED_FIELDS: [&str; 12] = [
    "From",
    "To",
    "Cc",
    "Reply-To",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
];

/// Maximum length of a line of the header field `DKIM-Signature`, in characters (RFC 5322, section
/// 2.1.1).
const MAX_LINE_LENGTH: usize = 76;

/// A domain's signing key.
pub struct Signer {
    domain: String,
    selector: String,
    key: rsa::KeyPair,
    random: SystemRandom,
}

impl Signer {
    /// Creates the signer of `domain` from a private key in PKCS #8 format, DER.
    ///
    /// # Errors
    /// Returns [`Error::Unusable`] if the key is not an RSA key of 2048 to 4096 bits.
    pub fn from_pkcs8(domain: &str, selector: &str, key: &[u8]) -> Result<Self, Error> {
        Self::new(domain, selector, rsa::KeyPair::from_pkcs8(key))
    }

    /// Creates the signer of `domain` from a private key in PKCS #1 format, DER.
    ///
    /// # Errors
    /// Returns [`Error::Unusable`] if the key is not an RSA key of 2048 to 4096 bits.
    pub(crate) fn from_pkcs1(domain: &str, selector: &str, key: &[u8]) -> Result<Self, Error> {
        Self::new(domain, selector, rsa::KeyPair::from_der(key))
    }

    fn new(
        domain: &str,
        selector: &str,
        key: Result<rsa::KeyPair, ring::error::KeyRejected>,
    ) -> Result<Self, Error> {
        let key = key.map_err(|error| Error::Unusable {
            domain: domain.to_owned(),
            reason: format!("it is not an RSA key of 2048 to 4096 bits ({error})"),
        })?;
        Ok(Self {
            domain: domain.to_owned(),
            selector: selector.to_owned(),
            key,
            random: SystemRandom::new(),
        })
    }

    /// Returns the public key as `RSAPublicKey` (PKCS #1) in DER.
    pub(crate) fn public_key(&self) -> &[u8] {
        self.key.public().as_ref()
    }

    /// Returns the header field `DKIM-Signature` with its CRLF. The caller inserts the field before
    /// the message. Every line of `message` must end with CRLF.
    ///
    /// # Errors
    /// Returns [`Error::Unusable`] if the key is inconsistent.
    pub fn sign(&self, message: &[u8], now: Timestamp) -> Result<String, Error> {
        let (headers, body) = split_message(message);
        let fields = parse_fields(headers);
        let mut names = Vec::new();
        let mut signed = Vec::with_capacity(headers.len() + 1024);
        for name in SIGNED_FIELDS {
            // Several fields with one name are signed from the last to the first (RFC 6376, section
            // 5.4.2).
            let reversed = fields.iter().rev();
            for (_, value) in reversed.filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())) {
                names.push(name);
                canonical::write_field(name.as_bytes(), value, &mut signed);
            }
            names.push(name);
        }
        let mut field = self.unsigned_field(&names, &body_hash(body), now);
        let value = field.split_once(':').map_or("", |(_, value)| value);
        canonical::write_unterminated_field(b"dkim-signature", value.as_bytes(), &mut signed);

        let mut signature = vec![0; self.key.public().modulus_len()];
        self.key
            .sign(
                &signature::RSA_PKCS1_SHA256,
                &self.random,
                &signed,
                &mut signature,
            )
            .map_err(|_| Error::Unusable {
                domain: self.domain.clone(),
                reason: "the key is inconsistent".into(),
            })?;
        let signature = STANDARD.encode(signature);
        let (mut rest, mut available) = (signature.as_str(), MAX_LINE_LENGTH - " b=".len());
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(available));
            if rest.len() < signature.len() {
                field.push_str("\r\n\t");
            }
            field.push_str(line);
            (rest, available) = (after, MAX_LINE_LENGTH - 1);
        }
        field.push_str("\r\n");
        Ok(field)
    }

    /// Returns the header field `DKIM-Signature` with an empty signature at the end.
    fn unsigned_field(&self, names: &[&str], body_hash: &str, now: Timestamp) -> String {
        let mut field = format!(
            "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\r\n\td={};\r\n\ts={}; t={};\r\n\th=",
            self.domain,
            self.selector,
            now.seconds(),
        );
        let mut column = 3;
        for (number, name) in names.iter().enumerate() {
            if number > 0 {
                field.push(':');
                column += 1;
            }
            if column + name.len() >= MAX_LINE_LENGTH {
                field.push_str("\r\n\t");
                column = 1;
            }
            field.push_str(name);
            column += name.len();
        }
        field + ";\r\n\tbh=" + body_hash + ";\r\n\tb="
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("domain", &self.domain)
            .field("selector", &self.selector)
            .finish_non_exhaustive()
    }
}

/// Returns the hash of the canonical body, in base64.
fn body_hash(body: &[u8]) -> String {
    let mut digest = Context::new(&SHA256);
    canonical::write_body(body, |piece| digest.update(piece));
    STANDARD.encode(digest.finish())
}

/// Splits a message into header and body. Omits the empty line between header and body.
fn split_message(message: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memmem::find(message, b"\r\n\r\n");
    end.map_or((message, &[]), |at| {
        (&message[..at + 2], &message[at + 4..])
    })
}

/// Returns the names and the folded values of header fields. Ignores lines without a colon.
fn parse_fields(headers: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut fields = Vec::new();
    let mut rest = headers;
    while !rest.is_empty() {
        let end = memchr::memmem::find_iter(rest, b"\r\n")
            .find(|at| !matches!(rest.get(at + 2), Some(b' ' | b'\t')))
            .map_or(rest.len(), |at| at + 2);
        let (field, after) = rest.split_at(end);
        rest = after;
        if let Some(colon) = memchr::memchr(b':', field) {
            fields.push((field[..colon].trim_ascii_end(), &field[colon + 1..]));
        }
    }
    fields
}

#[cfg(test)]
mod tests;
