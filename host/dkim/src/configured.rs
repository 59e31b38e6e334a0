//! Reads and checks the DKIM keys of platform domains in the configuration, at the start of the
//! service.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_core::secret_file;
use latchmail_directory::domains::PublicKey;
use rsa::RsaPublicKey;
use rsa::pkcs1::DecodeRsaPublicKey as _;
use rsa::pkcs8::{EncodePublicKey as _, SecretDocument};
use zeroize::Zeroizing;

use super::signer::Signer;

/// A key from the configuration.
#[derive(Debug)]
pub(crate) struct ConfiguredKey {
    pub(crate) selector: String,
    pub(crate) signer: Arc<Signer>,
    /// The content of the key file, for the milter that signs mail from mail clients.
    pub(crate) pem: Pem,
}

/// A private key in PEM format. `Debug` does not show the key.
pub(crate) struct Pem(pub(crate) Zeroizing<String>);

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pem")
    }
}

/// Returns the configured keys by domain.
///
/// # Errors
/// Returns an error if a key is invalid or if two keys have the same domain. The error names the
/// setting of the key.
pub(crate) fn read(config: &config::Dkim) -> Result<HashMap<String, ConfiguredKey>, StartError> {
    read_with(config, |file| secret_file::read_text("the key file", file))
}

/// Returns the public keys of the configured keys, by domain. The service runs as the user with the
/// id `user`.
///
/// # Errors
/// Returns an error if a key is invalid or if two keys have the same domain. The error names the
/// setting of the key.
pub fn public_keys(
    config: &config::Dkim,
    user: u32,
) -> Result<HashMap<String, PublicKey>, StartError> {
    let keys = read_with(config, |file| {
        secret_file::read_text_as("the key file", file, user)
    })?;
    let public_key = |(domain, key): (String, ConfiguredKey)| {
        let encoded = RsaPublicKey::from_pkcs1_der(key.signer.public_key())
            .ok()
            .and_then(|public| public.to_public_key_der().ok())
            .map(|der| STANDARD.encode(der.as_bytes()))
            .ok_or_else(|| {
                StartError::new(format!("the DKIM key of {domain} has no valid public key"))
            })?;
        let public = PublicKey {
            selector: key.selector,
            key: encoded,
        };
        Ok((domain, public))
    };
    keys.into_iter().map(public_key).collect()
}

/// Returns the configured keys by domain. `read_file` returns the content of a key file.
fn read_with(
    config: &config::Dkim,
    read_file: impl Fn(&Path) -> Result<Zeroizing<String>, StartError>,
) -> Result<HashMap<String, ConfiguredKey>, StartError> {
    let mut keys = HashMap::new();
    for (name, key) in &config.keys {
        let invalid = |problem: &str| StartError::new(format!("dkim.keys.{name} {problem}"));
        let domain = idna::domain_to_ascii(key.domain.trim())
            .ok()
            .filter(|domain| is_dns_name(domain))
            .ok_or_else(|| invalid(&format!("has the invalid domain {:?}", key.domain)))?;
        let selector = key.selector.trim().to_ascii_lowercase();
        if !is_dns_name(&selector) {
            return Err(invalid(&format!(
                "has the invalid selector {:?}",
                key.selector
            )));
        }
        let pem = read_file(&key.key_file)?;
        let signer = signer(&domain, &selector, &pem).map_err(|reason| {
            invalid(&format!(
                "cannot be used: {}: {reason}",
                key.key_file.display()
            ))
        })?;
        let Entry::Vacant(entry) = keys.entry(domain) else {
            return Err(invalid("has the same domain as another key"));
        };
        entry.insert(ConfiguredKey {
            selector,
            signer: Arc::new(signer),
            pem: Pem(pem),
        });
    }
    Ok(keys)
}

/// Creates the signer from the content of a key file.
fn signer(domain: &str, selector: &str, pem: &str) -> Result<Signer, String> {
    let (label, key) = SecretDocument::from_pem(pem)
        .map_err(|error| format!("the file contains no key in PEM format ({error})"))?;
    let signer = match label {
        "PRIVATE KEY" => Signer::from_pkcs8(domain, selector, key.as_bytes()),
        "RSA PRIVATE KEY" => Signer::from_pkcs1(domain, selector, key.as_bytes()),
        _ => return Err("the file contains no private key in PKCS #8 or PKCS #1 format".into()),
    };
    signer.map_err(|error| error.to_string())
}

/// Returns `true` if each label consists of lower-case letters, digits, hyphens and underscores.
/// These characters are valid in a header field and in the DNS.
fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
