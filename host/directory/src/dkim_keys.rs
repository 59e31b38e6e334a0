//! The encrypted DKIM signing keys of verified domains.
//!
//! The service reads a key from the database at each use. So the service stops signing for a domain
//! as soon as the domain is released.

pub mod milter;

use crate::db::{Db, Error, FromLookup, Lookup, Row};
use crate::debug::debug_fields;

const OF: &str = "SELECT dkim_selector, dkim_private_key FROM domains WHERE domain = $1 AND verified_at IS NOT NULL";
const ALL: &str = "SELECT domain, dkim_selector, dkim_private_key FROM domains WHERE verified_at IS NOT NULL ORDER BY domain";

/// The signing key of a domain, as the database stores it.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedKey {
    /// The selector of the DKIM record.
    pub selector: String,
    /// The private key in PKCS #8 DER, encrypted with the service's key. Decryption also needs the
    /// domain.
    pub sealed: Vec<u8>,
}

debug_fields!(SealedKey { selector });

impl FromLookup for SealedKey {
    fn of(row: &Row<'_>) -> Result<Self, Error> {
        Ok(Self {
            selector: row.get("dkim_selector")?,
            sealed: row.get("dkim_private_key")?,
        })
    }
}

/// The signing keys of domains.
#[derive(Clone, Debug)]
pub struct DkimKeys {
    pub(crate) db: Db,
    pub(crate) lookup: Lookup,
}

impl DkimKeys {
    /// Returns the signing key of a verified domain, or `None` if no account has verified the
    /// domain.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(&self, domain: &str) -> Result<Option<SealedKey>, Error> {
        self.lookup.one(OF, [domain]).await
    }

    /// Returns the name and the signing key of every verified domain.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self) -> Result<Vec<(String, SealedKey)>, Error> {
        let rows: Vec<(String, String, Vec<u8>)> = self.db.all(ALL, ()).await?;
        let key = |(domain, selector, sealed)| (domain, SealedKey { selector, sealed });
        Ok(rows.into_iter().map(key).collect())
    }
}
