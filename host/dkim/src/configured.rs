//! The DKIM keys in the configuration, for the platform's own domains. They are read and checked once, at the start.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_core::key_file;
use rsa::pkcs8::SecretDocument;
use zeroize::Zeroizing;

use super::Signer;

/// A key from the configuration.
#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) selector: String,
    pub(crate) signer: Arc<Signer>,
    /// The content of the key file, for a milter that signs the mail of mail clients.
    pub(crate) pem: Pem,
}

/// A private key in PEM. `Debug` does not show it.
pub(crate) struct Pem(pub(crate) Zeroizing<String>);

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pem")
    }
}

/// Reads the keys. Returns them by domain.
pub(crate) fn read(config: &config::Dkim) -> Result<HashMap<String, Configured>, StartError> {
    let mut keys = HashMap::new();
    for (name, key) in &config.keys {
        let refused = |why: &str| StartError::new(format!("dkim.keys.{name} {why}"));
        let domain = idna::domain_to_ascii(key.domain.trim())
            .ok()
            .filter(|domain| is_name(domain))
            .ok_or_else(|| refused(&format!("has the invalid domain {:?}", key.domain)))?;
        let selector = key.selector.trim().to_ascii_lowercase();
        if !is_name(&selector) {
            return Err(refused(&format!(
                "has the invalid selector {:?}",
                key.selector
            )));
        }
        let pem = key_file::read(&key.key_file)?;
        let signer = signer(&domain, &selector, &pem).map_err(|why| {
            refused(&format!(
                "cannot be used: {}: {why}",
                key.key_file.display()
            ))
        })?;
        let Entry::Vacant(place) = keys.entry(domain) else {
            return Err(refused("has the same domain as another key"));
        };
        place.insert(Configured {
            selector,
            signer: Arc::new(signer),
            pem: Pem(pem),
        });
    }
    Ok(keys)
}

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

/// Returns `true` if the name consists of labels of lower-case letters, digits, hyphens and underscores, which are valid in a header field and in the DNS.
fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
    };
    name.len() <= 253 && name.split('.').all(label)
}
