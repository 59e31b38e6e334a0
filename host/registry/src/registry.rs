//! The registries with the settings of the section `[registry]`.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use latchmail_core::clock::Timestamp;
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_net::dns::Dns;
use latchmail_net::fetch::Fetch;

use crate::client::Client;
use crate::credentials::Credentials;
use crate::digest::Digest;
use crate::error::Error;
use crate::keys::Keys;
use crate::manifest::Manifest;
use crate::reference::Reference;
use crate::{pull, push, signature, tags};

/// The maximum size of the configuration of an artifact in bytes.
const MAX_CONFIG: u64 = 1024 * 1024;

/// The registries.
#[derive(Debug)]
pub struct Registry {
    client: Client,
    keys: Keys,
    allow_unsigned: bool,
}

/// An artifact: its reference, and the digest to which the reference resolved.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The reference. It has no digest.
    reference: Reference,
    digest: Digest,
    manifest: Bytes,
}

impl Registry {
    /// Creates the client of registries. Reads the keys, the credentials and the certificates.
    /// Opens no connection.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid or a file cannot be used.
    pub fn new(config: &config::Registry, dns: Arc<Dns>) -> Result<Self, StartError> {
        let fetch = match &config.ca {
            Some(file) => {
                let pem = std::fs::read(file).map_err(|error| {
                    let file = file.display();
                    StartError::new(format!("cannot read `registry.ca` {file}: {error}"))
                })?;
                Fetch::with_authorities(dns, &pem)?
            }
            None => Fetch::new(dns)?,
        };
        let credentials = match &config.credentials {
            Some(file) => Credentials::read(file)?,
            None => Credentials::default(),
        };
        Ok(Self {
            client: Client::new(fetch, &config.plain_http, credentials)?,
            keys: Keys::read(&config.keys)?,
            allow_unsigned: config.allow_unsigned,
        })
    }

    /// Returns the reference to the newest version in the repository of `installed`. If the tag of
    /// `installed` is not a version of three numbers, returns `installed` without its digest.
    ///
    /// # Errors
    /// Returns an error if `installed` has no tag, or if the tags cannot be listed.
    pub async fn newest(&self, installed: &Reference) -> Result<Reference, Error> {
        let mut session = self.client.session(installed, "pull")?;
        tags::newest(&mut session, installed).await
    }

    /// Resolves a reference to the digest of an artifact.
    ///
    /// # Errors
    /// Returns an error if the reference has neither a tag nor a digest, if the artifact does not
    /// exist, or if the registry returns another artifact than that with the digest.
    pub async fn resolve(&self, reference: &Reference) -> Result<Resolved, Error> {
        let expected = reference.digest.as_ref();
        let tag = reference.tag.as_deref();
        let Some(name) = expected.map(Digest::as_str).or(tag) else {
            let problem = "has neither a tag nor a digest";
            return Err(Error::incomplete(reference, problem));
        };
        let mut session = self.client.session(reference, "pull")?;
        let what = reference.to_string();
        let manifest = pull::manifest(&mut session, &what, name).await?;
        if let Some(expected) = expected {
            pull::require(&what, expected, &manifest)?;
        }
        Ok(Resolved {
            reference: reference.without_digest(),
            digest: Digest::of(&manifest),
            manifest,
        })
    }

    /// Downloads the component of an artifact. The component has at most `limit` bytes. Verifies
    /// the signature of the artifact first, unless `unsigned` is true.
    ///
    /// # Errors
    /// Returns an error if the artifact has no valid signature, is not a component, is too large,
    /// or cannot be downloaded, and if the configuration does not allow `unsigned`.
    pub async fn pull(
        &self,
        resolved: &Resolved,
        unsigned: bool,
        limit: u64,
    ) -> Result<Bytes, Error> {
        let Resolved {
            reference,
            digest,
            manifest,
        } = resolved;
        let mut session = self.client.session(reference, "pull")?;
        if unsigned {
            if !self.allow_unsigned {
                return Err(Error::UnsignedNotAllowed);
            }
        } else {
            if self.keys.is_empty() {
                return Err(Error::NoKeys);
            }
            signature::verify(&mut session, &self.keys, reference, digest).await?;
        }
        let manifest = Manifest::parse(&format!("the manifest of {resolved}"), manifest)?;
        let layer = manifest.component(&format!("the manifest of {resolved}"))?;
        let what = format!("the configuration of {resolved}");
        pull::blob(&mut session, &what, &manifest.config, MAX_CONFIG).await?;
        let what = format!("the component of {resolved}");
        pull::blob(&mut session, &what, layer, limit).await
    }

    /// Uploads a component to the tag of a reference. Does not sign it. `now` is the current time.
    ///
    /// # Errors
    /// Returns an error if the reference has no tag or has a digest, if the bytes are not a
    /// component, or if the upload fails.
    pub async fn push(
        &self,
        reference: &Reference,
        component: &Bytes,
        now: Timestamp,
    ) -> Result<Digest, Error> {
        let Some(tag) = reference
            .tag
            .as_deref()
            .filter(|_| reference.digest.is_none())
        else {
            let problem = "must have a tag and no digest";
            return Err(Error::incomplete(reference, problem));
        };
        let mut session = self.client.session(reference, "pull,push")?;
        push::push(&mut session, tag, component, &now.to_string()).await
    }
}

impl Resolved {
    /// Returns the reference, without a digest.
    #[must_use]
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// Returns the digest of the artifact's manifest.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

/// The reference with the digest.
impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.reference, self.digest)
    }
}
