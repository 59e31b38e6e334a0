//! The credentials of registries, in a file as `docker login` writes it. Credential helpers are not
//! supported, because they are other programs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_core::error::StartError;
use latchmail_core::secret_file;
use serde::Deserialize;
use zeroize::Zeroizing;

/// The credentials of registries, by the host of the registry.
#[derive(Default)]
pub(crate) struct Credentials {
    auths: BTreeMap<String, Entry>,
    helpers: BTreeMap<String, String>,
    has_store: bool,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default, rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(default, rename = "credsStore")]
    store: String,
}

/// The entry of one registry.
#[derive(Deserialize)]
struct Entry {
    /// `NAME:PASSWORD` in base64.
    #[serde(default)]
    auth: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is invalid, or if other users can read it.
    pub(crate) fn read(path: &Path) -> Result<Self, StartError> {
        let text = secret_file::read_text("the file of `registry.credentials`", path)?;
        Self::parse(&text).ok_or_else(|| {
            StartError::new(format!(
                "the file of `registry.credentials` {} is not a configuration of Docker: it must be JSON with `auths`",
                path.display()
            ))
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let file: File = serde_json::from_str(text).ok()?;
        let auths = file.auths.into_iter();
        Some(Self {
            auths: auths.map(|(key, entry)| (host_of(&key), entry)).collect(),
            helpers: file.helpers,
            has_store: !file.store.is_empty(),
        })
    }

    /// Returns the value of the header `Authorization` for a registry, or `None` if the file has no
    /// entry for it.
    ///
    /// # Errors
    /// Returns an error if the entry cannot be used.
    pub(crate) fn basic(&self, host: &str) -> Result<Option<Zeroizing<String>>, StartError> {
        let host = host.to_ascii_lowercase();
        let unusable = |reason: &str| {
            StartError::new(format!(
                "the file of `registry.credentials` has no usable credentials for {host}: {reason}"
            ))
        };
        let auth = match self.auths.get(&host) {
            Some(entry) if !entry.auth.is_empty() => &entry.auth,
            Some(_) => return Err(unusable("the entry has no `auth`")),
            None if self.helpers.contains_key(&host) || self.has_store && self.auths.is_empty() => {
                return Err(unusable("credential helpers are not supported"));
            }
            None => return Ok(None),
        };
        let decoded = STANDARD.decode(auth).map(Zeroizing::new);
        if !decoded.is_ok_and(|text| text.contains(&b':')) {
            return Err(unusable("`auth` must be NAME:PASSWORD in base64"));
        }
        Ok(Some(Zeroizing::new(format!("Basic {auth}"))))
    }
}

/// Returns the host in a key of `auths`, which can be a URL.
fn host_of(key: &str) -> String {
    let rest = key.split_once("://").map_or(key, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or(rest);
    host.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(text: &str, host: &str) -> Result<Option<String>, String> {
        let found = Credentials::parse(text).unwrap().basic(host);
        found
            .map(|basic| basic.map(|basic| basic.to_string()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn credentials_are_used_for_their_registry_only() {
        let text = r#"{"auths": {
            "registry.example.com": {"auth": "YWRhOnMzY3JldA=="},
            "https://Other.example.com:5000/v1/": {"auth": "Ym9iOng="}
        }}"#;
        assert_eq!(
            basic(text, "registry.example.com").unwrap().as_deref(),
            Some("Basic YWRhOnMzY3JldA==")
        );
        assert_eq!(
            basic(text, "other.example.com:5000").unwrap().as_deref(),
            Some("Basic Ym9iOng=")
        );
        for host in ["example.com", "registry.example.com:5000", ""] {
            assert_eq!(basic(text, host), Ok(None), "{host}");
        }
    }

    #[test]
    fn an_entry_that_cannot_be_used_is_an_error() {
        for (text, reason) in [
            (r#"{"auths": {"host": {}}}"#, "no `auth`"),
            (r#"{"auths": {"host": {"auth": "!"}}}"#, "base64"),
            (r#"{"auths": {"host": {"auth": "YWRh"}}}"#, "NAME:PASSWORD"),
            (r#"{"credHelpers": {"host": "x"}}"#, "helpers"),
            (r#"{"credsStore": "x"}"#, "helpers"),
        ] {
            let error = basic(text, "host").unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(Credentials::parse("{").is_none());
    }
}
