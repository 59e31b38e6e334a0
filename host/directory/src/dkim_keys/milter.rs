//! The private keys of signing domains, in plain text, for a milter of the mail server.
//!
//! The table of these keys is used only if `dkim.milter` is set. This module inserts keys and
//! corrects the table. When a transaction releases a domain or removes a platform domain, triggers
//! delete the domain's key in the same transaction.

use sqlx::AssertSqlSafe;
use zeroize::Zeroizing;

use super::DkimKeys;
use crate::db::{Changed as _, Db, Error, Tx, on_tx};
use crate::debug::debug_fields;

/// Maximum number of keys that one transaction writes. On SQLite, other writers wait for the
/// transaction.
const BATCH: usize = 100;

/// Locks the rows of the platform domains and of the verified domains in $1. No other transaction
/// can release or remove the domains before the end of the transaction.
const LOCKS_POSTGRES: [&str; 2] = [
    "SELECT 1 FROM platform_domains WHERE domain = ANY($1) ORDER BY domain FOR SHARE",
    "SELECT 1 FROM domains WHERE domain = ANY($1) AND verified_at IS NOT NULL ORDER BY domain FOR SHARE",
];

/// `{table}` is the name of the table of the milter's keys. A configured key is inserted only if
/// its domain is a platform domain. A generated key is inserted only if it is the current key of
/// its domain.
const UPSERT: &str = "INSERT INTO {table} AS k (domain, selector, private_key) SELECT $1, $2, $3 \
    WHERE CASE WHEN $4 THEN EXISTS (SELECT 1 FROM platform_domains WHERE domain = $1) \
        ELSE EXISTS (SELECT 1 FROM domains WHERE domain = $1 AND dkim_selector = $2 AND verified_at IS NOT NULL) END \
    ON CONFLICT (domain) DO UPDATE SET selector = excluded.selector, private_key = excluded.private_key \
    WHERE k.selector <> excluded.selector OR k.private_key <> excluded.private_key";
const DELETE_OTHERS_SQLITE: &str = "DELETE FROM milter.mailserver_dkim_keys AS k WHERE domain NOT IN (SELECT value FROM json_each($1)) \
    AND NOT EXISTS (SELECT 1 FROM main.domains d WHERE d.domain = k.domain AND d.dkim_selector = k.selector AND d.verified_at IS NOT NULL)";
const DELETE_OTHERS_POSTGRES: &str = "DELETE FROM mailserver_dkim_keys k WHERE domain <> ALL($1) \
    AND NOT EXISTS (SELECT 1 FROM domains d WHERE d.domain = k.domain AND d.dkim_selector = k.selector AND d.verified_at IS NOT NULL)";
const OVERWRITE_SQLITE: &str = "PRAGMA milter.wal_checkpoint(TRUNCATE)";

/// A key for a milter.
pub struct MilterKey {
    /// The signing domain, in lower case and ASCII.
    pub domain: String,
    /// The selector of the DKIM record.
    pub selector: String,
    /// The private key in PEM.
    pub private_key: Zeroizing<String>,
    /// Whether the key comes from the configuration. A configured key is valid only while its
    /// domain is a platform domain.
    pub configured: bool,
}

debug_fields!(MilterKey { domain, selector });

impl DkimKeys {
    /// Writes keys for a milter. Skips the key of a domain that is neither a platform domain nor a
    /// verified domain any longer.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if no milter is configured for this database.
    pub async fn add_milter_keys(&self, keys: &[MilterKey]) -> Result<(), Error> {
        for batch in keys.chunks(BATCH) {
            let mut tx = self.db.begin().await?;
            let table = match &mut tx {
                Tx::Sqlite(_) => "milter.mailserver_dkim_keys",
                Tx::Postgres(tx) => {
                    let domains: Vec<&str> = batch.iter().map(|key| key.domain.as_str()).collect();
                    for lock in LOCKS_POSTGRES {
                        let lock = sqlx::query(lock).bind(&domains);
                        lock.execute(&mut **tx).await?;
                    }
                    "mailserver_dkim_keys"
                }
            };
            let upsert = UPSERT.replace("{table}", table);
            for key in batch {
                on_tx!(&mut tx, db => sqlx::query(AssertSqlSafe(upsert.clone()))
                    .bind(&key.domain)
                    .bind(&key.selector)
                    .bind(key.private_key.as_str())
                    .bind(key.configured)
                    .execute(db).await.map(drop))?;
            }
            tx.commit().await?;
        }
        Ok(())
    }

    /// Replaces the milter's keys with `keys`. Keeps the keys of domains that were verified
    /// concurrently.
    ///
    /// # Errors
    /// Returns an error under the same conditions as [`DkimKeys::add_milter_keys`].
    pub async fn set_milter_keys(&self, keys: &[MilterKey]) -> Result<(), Error> {
        self.add_milter_keys(keys).await?;
        let domains: Vec<&str> = keys.iter().map(|key| key.domain.as_str()).collect();
        match &self.db {
            Db::Sqlite(pool, _) => {
                let domains = serde_json::Value::from(domains).to_string();
                self.db.execute(DELETE_OTHERS_SQLITE, [domains]).await?;
                // This query does not truncate the write-ahead log while another connection is
                // reading. In that case, the next call truncates the write-ahead log.
                sqlx::raw_sql(OVERWRITE_SQLITE)
                    .execute(pool)
                    .await
                    .changed()?;
            }
            Db::Postgres(pool) => {
                let delete = sqlx::query(DELETE_OTHERS_POSTGRES).bind(domains);
                delete.execute(pool).await.changed()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
