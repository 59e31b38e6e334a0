//! Selects the key that signs for a domain. A platform domain uses the configured key. A custom
//! domain uses the key that was generated when the domain was verified. If a signing milter is
//! configured, this module also stores the keys for the milter.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use latchmail_directory::Directory;
use latchmail_directory::dkim_keys::SealedKey;
use latchmail_directory::dkim_keys::milter::MilterKey;
use quick_cache::sync::Cache;
use rsa::pkcs8::{LineEnding, SecretDocument};
use zeroize::Zeroizing;

use super::configured::{self, ConfiguredKey};
use super::error::Error;
use super::signer::Signer;

/// Maximum number of signers in the cache. Each signer needs a few kilobytes.
const CACHE_CAPACITY: usize = 1000;

/// The keys of all domains.
pub struct Keys {
    directory: Directory,
    keyring: Arc<Keyring>,
    configured: HashMap<String, ConfiguredKey>,
    /// `true` if a signing milter is configured.
    has_milter: bool,
    /// The signers by domain, with the encrypted key of each signer. A signer is used only if the
    /// directory contains the same encrypted key.
    cache: Cache<String, (SealedKey, Arc<Signer>)>,
}

impl Keys {
    /// Reads the keys in the configuration.
    ///
    /// # Errors
    /// Returns an error if a key cannot be read or used, or if other users can read the key's file.
    pub fn new(
        config: &config::Dkim,
        directory: Directory,
        keyring: Arc<Keyring>,
    ) -> Result<Self, StartError> {
        Ok(Self {
            directory,
            keyring,
            configured: configured::read(config)?,
            has_milter: config.milter,
            cache: Cache::new(CACHE_CAPACITY),
        })
    }

    /// Returns the current signer of a domain, which must be in lower case and ASCII. Returns
    /// `None` if the domain has no key.
    ///
    /// # Errors
    /// Returns an [`Error`] if the key cannot be used or the directory fails. In this case, the
    /// caller must not send the message unsigned, because receivers would treat the message as
    /// forged.
    pub async fn signer(&self, domain: &str) -> Result<Option<Arc<Signer>>, Error> {
        if let Some(key) = self.configured(domain).await? {
            return Ok(Some(Arc::clone(&key.signer)));
        }
        let Some(key) = self.directory.dkim_keys.find(domain).await? else {
            self.cache.remove(domain);
            return Ok(None);
        };
        if let Some((sealed, signer)) = self.cache.get(domain)
            && sealed == key
        {
            return Ok(Some(signer));
        }
        let private = self.open(domain, &key)?;
        let signer = Arc::new(Signer::from_pkcs8(domain, &key.selector, &private)?);
        self.cache
            .insert(domain.to_owned(), (key, Arc::clone(&signer)));
        Ok(Some(signer))
    }

    /// Removes the key of a released domain from memory. Even without this call, the key is not
    /// used after the release.
    pub fn evict(&self, domain: &str) {
        self.cache.remove(domain);
    }

    /// Clears the cache. Call this function about every hour, so that keys of released domains do
    /// not stay in memory.
    pub fn clear_cache(&self) {
        self.cache.clear();
    }

    /// Stores the key of a newly verified domain for the milter. Does nothing without a milter.
    ///
    /// # Errors
    /// Returns an [`Error`] if the key cannot be decrypted or stored. In this case,
    /// [`Keys::sync_milter`] stores the key within an hour.
    pub async fn add_to_milter(&self, domain: &str) -> Result<(), Error> {
        if !self.has_milter || self.configured(domain).await?.is_some() {
            return Ok(());
        }
        let Some(key) = self.directory.dkim_keys.find(domain).await? else {
            return Ok(());
        };
        let key = self.milter_key(domain.to_owned(), key)?;
        Ok(self.directory.dkim_keys.add_milter_keys(&[key]).await?)
    }

    /// Synchronizes the milter's keys with the directory and the configuration. Logs and omits a
    /// key that cannot be decrypted. Call this function at the start of the service and about every
    /// hour.
    ///
    /// # Errors
    /// Returns an [`Error`] if the directory fails.
    pub async fn sync_milter(&self) -> Result<(), Error> {
        if !self.has_milter {
            return Ok(());
        }
        let platform = self.directory.domains.platform_domains().await?;
        let platform: BTreeSet<String> = platform.into_iter().map(|one| one.domain).collect();
        let configured_key = |domain: &str| {
            let key = self.configured.get(domain)?;
            Some(MilterKey {
                domain: domain.to_owned(),
                selector: key.selector.clone(),
                private_key: key.pem.0.clone(),
                configured: true,
            })
        };
        let mut keys: Vec<MilterKey> = platform
            .iter()
            .filter_map(|domain| configured_key(domain))
            .collect();
        for (domain, key) in self.directory.dkim_keys.list().await? {
            if platform.contains(&domain) && self.configured.contains_key(&domain) {
                continue;
            }
            match self.milter_key(domain, key) {
                Ok(key) => keys.push(key),
                Err(error) => tracing::error!(%error, "failed to store a DKIM key for the milter"),
            }
        }
        Ok(self.directory.dkim_keys.set_milter_keys(&keys).await?)
    }

    /// Returns the configured key of a platform domain. Returns `None` for a domain that is not a
    /// platform domain, even if the configuration contains a key. Such a domain can belong to an
    /// account.
    async fn configured(&self, domain: &str) -> Result<Option<&ConfiguredKey>, Error> {
        let Some(key) = self.configured.get(domain) else {
            return Ok(None);
        };
        let platform_domain = self.directory.domains.platform_domain(domain).await?;
        Ok(platform_domain.map(|_| key))
    }

    /// Decrypts a key from the directory and converts the key to the form for the milter.
    fn milter_key(&self, domain: String, key: SealedKey) -> Result<MilterKey, Error> {
        let private = self.open(&domain, &key)?;
        let private_key = SecretDocument::try_from(private.as_slice())
            .and_then(|key| key.to_pem("PRIVATE KEY", LineEnding::LF))
            .map_err(|error| Error::Unusable {
                domain: domain.clone(),
                reason: error.to_string(),
            })?;
        Ok(MilterKey {
            domain,
            selector: key.selector,
            private_key,
            configured: false,
        })
    }

    /// Decrypts a private key from the directory.
    fn open(&self, domain: &str, key: &SealedKey) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.keyring
            .open_bytes(Purpose::DkimKey, domain, &key.sealed)
            .ok_or_else(|| Error::Unusable {
                domain: domain.to_owned(),
                reason: "none of the service's keys can decrypt it".into(),
            })
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("configured", &self.configured)
            .finish_non_exhaustive()
    }
}
