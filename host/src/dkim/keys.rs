//! Which key signs for a domain: the configuration's while the domain is the platform's, else the one that was made when an account verified it. The
//! same keys are given to a milter, where there is one.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use quick_cache::sync::Cache;
use rsa::pkcs8::{LineEnding, SecretDocument};
use zeroize::Zeroizing;

use super::configured::{self, Configured};
use super::{Error, Signer};
use crate::auth::keyring::Keyring;
use crate::auth::sealing::Purpose;
use crate::config;
use crate::directory::Directory;
use crate::directory::dkim_keys::SealedKey;
use crate::directory::milter::MilterKey;
use crate::error::{Failure, StartError};

/// Keys that are kept open, of some kilobytes each.
const OPEN: usize = 1000;

/// The keys of all domains.
pub struct Keys {
    directory: Directory,
    keyring: Arc<Keyring>,
    configured: HashMap<String, Configured>,
    milter: bool,
    /// By domain, with what each was opened from: it signs only while just that stands in the directory.
    open: Cache<String, (SealedKey, Arc<Signer>)>,
}

impl Keys {
    /// Reads the keys that the configuration names.
    ///
    /// # Errors
    /// A sentence where one cannot be read or used, or others may read it.
    pub fn new(
        config: &config::Dkim,
        directory: Directory,
        keyring: Arc<Keyring>,
    ) -> Result<Self, StartError> {
        Ok(Self {
            directory,
            keyring,
            configured: configured::read(config)?,
            milter: config.milter,
            open: Cache::new(OPEN),
        })
    }

    /// Who signs for a domain, in lower case and ASCII, now. None where nobody does.
    ///
    /// # Errors
    /// [`Error`] where it has a key that cannot be used, or that cannot be asked for: what it sends has to wait then, since the world takes what is
    /// not signed for somebody else's.
    pub async fn signer(&self, domain: &str) -> Result<Option<Arc<Signer>>, Error> {
        if let Some(key) = self.configured(domain).await? {
            return Ok(Some(Arc::clone(&key.signer)));
        }
        let Some(key) = self.directory.dkim_key(domain).await? else {
            self.open.remove(domain);
            return Ok(None);
        };
        if let Some((of, signer)) = self.open.get(domain)
            && of == key
        {
            return Ok(Some(signer));
        }
        let private = self.opened(domain, &key)?;
        let signer = Arc::new(Signer::from_pkcs8(domain, &key.selector, &private)?);
        self.open
            .insert(domain.to_owned(), (key, Arc::clone(&signer)));
        Ok(Some(signer))
    }

    /// Forgets the key of a domain that was released this moment. Nothing is signed with it any more whether or not this is called.
    pub fn released(&self, domain: &str) {
        self.open.remove(domain);
    }

    /// Forgets the keys that were opened. To be called every hour or so: of a domain that was released nothing is left then.
    pub fn forget(&self) {
        self.open.clear();
    }

    /// Seals the keys anew that were sealed under an earlier key of the service. To be called at the start.
    ///
    /// # Errors
    /// 500 where the database fails.
    pub async fn reseal(&self) -> Result<(), Failure> {
        for (domain, key) in self.directory.dkim_keys().await? {
            if self.keyring.is_current(&key.sealed) {
                continue;
            }
            let private = match self.opened(&domain, &key) {
                Ok(private) => private,
                Err(error) => {
                    tracing::error!(%error, "what the domain sends is refused");
                    continue;
                }
            };
            let anew = self
                .keyring
                .seal_bytes(Purpose::DkimKey, &domain, &private)?;
            self.directory
                .reseal_dkim_key(&domain, &key.sealed, &anew)
                .await?;
        }
        Ok(())
    }

    /// Gives a milter the key of a domain that was verified this moment. Nothing happens where there is no milter.
    ///
    /// # Errors
    /// [`Error`] where the key cannot be opened or written; [`Keys::tell_milter`] tries again within the hour.
    pub async fn verified(&self, domain: &str) -> Result<(), Error> {
        if !self.milter || self.configured(domain).await?.is_some() {
            return Ok(());
        }
        let Some(key) = self.directory.dkim_key(domain).await? else {
            return Ok(());
        };
        let key = self.for_milter(domain.to_owned(), key)?;
        Ok(self.directory.give_milter(&[key]).await?)
    }

    /// Makes what a milter reads what it ought to be. To be called at the start and every hour or so.
    ///
    /// # Errors
    /// [`Error`] where the directory fails. A key that cannot be opened is left out, which the log says.
    pub async fn tell_milter(&self) -> Result<(), Error> {
        if !self.milter {
            return Ok(());
        }
        let platform = self.directory.platform_domains().await?;
        let platform: BTreeSet<String> = platform.into_iter().map(|one| one.domain).collect();
        let configured = |domain: &str| {
            let key = self.configured.get(domain)?;
            Some(MilterKey {
                domain: domain.to_owned(),
                selector: key.selector.clone(),
                private_key: key.pem.0.clone(),
                configured: true,
            })
        };
        let mut keys: Vec<MilterKey> = platform.iter().filter_map(|own| configured(own)).collect();
        for (domain, key) in self.directory.dkim_keys().await? {
            if platform.contains(&domain) && self.configured.contains_key(&domain) {
                continue;
            }
            match self.for_milter(domain, key) {
                Ok(key) => keys.push(key),
                Err(error) => tracing::error!(%error, "a milter cannot be given it"),
            }
        }
        Ok(self.directory.set_milter(&keys).await?)
    }

    /// The configuration's key of a domain, while that is the platform's: afterwards somebody else may have it.
    async fn configured(&self, domain: &str) -> Result<Option<&Configured>, Error> {
        let Some(key) = self.configured.get(domain) else {
            return Ok(None);
        };
        let platforms = self.directory.platform_domain(domain).await?;
        Ok(platforms.map(|_| key))
    }

    fn for_milter(&self, domain: String, key: SealedKey) -> Result<MilterKey, Error> {
        let private = self.opened(&domain, &key)?;
        let private_key = SecretDocument::try_from(private.as_slice())
            .and_then(|key| key.to_pem("PRIVATE KEY", LineEnding::LF))
            .map_err(|error| Error::Unusable {
                domain: domain.clone(),
                why: error.to_string(),
            })?;
        Ok(MilterKey {
            domain,
            selector: key.selector,
            private_key,
            configured: false,
        })
    }

    fn opened(&self, domain: &str, key: &SealedKey) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.keyring
            .open_bytes(Purpose::DkimKey, domain, &key.sealed)
            .ok_or_else(|| Error::Unusable {
                domain: domain.to_owned(),
                why: "it was not sealed under any of the service's keys".into(),
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
