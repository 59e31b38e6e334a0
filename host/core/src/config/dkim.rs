//! `[dkim]`: the DKIM keys.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// `[dkim]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dkim {
    /// Whether a milter of the mail server receives the keys, for mail that mail clients submit.
    pub milter: bool,
    /// The keys of the platform's own domains. The names of the sections have no meaning.
    pub keys: BTreeMap<String, DkimKey>,
}

/// `[dkim.keys.<name>]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DkimKey {
    /// The domain that signs with the key. A domain has one key.
    pub domain: String,
    /// The selector. The key is published as `<selector>._domainkey.<domain>`.
    pub selector: String,
    /// The file of the private RSA key in PEM (PKCS #8 or PKCS #1). Other users must not be able to read it.
    pub key_file: PathBuf,
}
