//! `[dkim]`: the DKIM keys.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// The section `[dkim]` of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dkim {
    /// Whether a milter of the mail server can read the keys. The milter signs mail that mail
    /// clients submit to the mail server.
    pub milter: bool,
    /// The keys of the platform's own domains, by the name of the configuration section. The
    /// service does not use the names of the sections.
    pub keys: BTreeMap<String, DkimKey>,
}

/// A section `[dkim.keys.<name>]` of the configuration: one key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DkimKey {
    /// The domain whose mail is signed with the key. A domain can have only one key.
    pub domain: String,
    /// The selector. The key is published as `<selector>._domainkey.<domain>`.
    pub selector: String,
    /// The path of the file with the private RSA key in PEM format (PKCS #8 or PKCS #1). Other
    /// users must not be able to read the file.
    pub key_file: PathBuf,
}
