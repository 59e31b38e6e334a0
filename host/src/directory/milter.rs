//! What a milter of the mail server's reads: the private keys of the domains that sign, in the clear.
//!
//! Only where the configuration asks for it. A domain that is released, or is the platform's no longer, takes its key with it in the same transaction, by
//! triggers; what is here puts keys there, and makes the table what it ought to be.

use sqlx::AssertSqlSafe;
use zeroize::Zeroizing;

use super::db::{Tx, on_tx};
use super::{Db, Directory, Error};

/// Keys written in one transaction: what others wait for on SQLite.
const BATCH: usize = 100;

/// Nobody releases or removes these domains before this transaction has ended.
const LOCKS_POSTGRES: [&str; 2] = [
    "SELECT 1 FROM platform_domains WHERE domain = ANY($1) ORDER BY domain FOR SHARE",
    "SELECT 1 FROM domains WHERE domain = ANY($1) AND verified_at IS NOT NULL ORDER BY domain FOR SHARE",
];

/// `{table}` is the table. The configuration's key goes there only while the domain is the platform's, one that was made for a domain only while
/// the domain has it.
const GIVE: &str = "INSERT INTO {table} AS k (domain, selector, private_key) SELECT $1, $2, $3 \
    WHERE CASE WHEN $4 THEN EXISTS (SELECT 1 FROM platform_domains WHERE domain = $1) \
        ELSE EXISTS (SELECT 1 FROM domains WHERE domain = $1 AND dkim_selector = $2 AND verified_at IS NOT NULL) END \
    ON CONFLICT (domain) DO UPDATE SET selector = excluded.selector, private_key = excluded.private_key \
    WHERE k.selector <> excluded.selector OR k.private_key <> excluded.private_key";
const TAKE_SQLITE: &str = "DELETE FROM milter.mailserver_dkim_keys AS k WHERE domain NOT IN (SELECT value FROM json_each($1)) \
    AND NOT EXISTS (SELECT 1 FROM main.domains d WHERE d.domain = k.domain AND d.dkim_selector = k.selector AND d.verified_at IS NOT NULL)";
const TAKE_POSTGRES: &str = "DELETE FROM mailserver_dkim_keys k WHERE domain <> ALL($1) \
    AND NOT EXISTS (SELECT 1 FROM domains d WHERE d.domain = k.domain AND d.dkim_selector = k.selector AND d.verified_at IS NOT NULL)";
const OVERWRITE_SQLITE: &str = "PRAGMA milter.wal_checkpoint(TRUNCATE)";

/// A key as a milter has it.
pub struct MilterKey {
    /// The domain that signs with it, in lower case and ASCII.
    pub domain: String,
    /// Under which name it is published.
    pub selector: String,
    /// PEM.
    pub private_key: Zeroizing<String>,
    /// Whether it is the configuration's: such a domain has it while it is the platform's.
    pub configured: bool,
}

impl std::fmt::Debug for MilterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MilterKey")
            .field("domain", &self.domain)
            .field("selector", &self.selector)
            .finish_non_exhaustive()
    }
}

impl Directory {
    /// Gives a milter these keys, of what is still verified or the platform's.
    ///
    /// # Errors
    /// [`Error`] where the database fails, or is one that is not read by a milter.
    pub async fn give_milter(&self, keys: &[MilterKey]) -> Result<(), Error> {
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
            let give = GIVE.replace("{table}", table);
            for key in batch {
                on_tx!(&mut tx, db => sqlx::query(AssertSqlSafe(give.clone()))
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

    /// Makes what a milter reads exactly these keys, and those of domains that were verified meanwhile.
    ///
    /// # Errors
    /// As [`Directory::give_milter`].
    pub async fn set_milter(&self, keys: &[MilterKey]) -> Result<(), Error> {
        self.give_milter(keys).await?;
        let domains: Vec<&str> = keys.iter().map(|key| key.domain.as_str()).collect();
        match &self.db {
            Db::Sqlite(pool) => {
                sqlx::query(TAKE_SQLITE)
                    .bind(serde_json::Value::from(domains).to_string())
                    .execute(pool)
                    .await?;
                // Where somebody reads, the next time.
                sqlx::raw_sql(OVERWRITE_SQLITE).execute(pool).await?;
            }
            Db::Postgres(pool) => {
                let take = sqlx::query(TAKE_POSTGRES).bind(domains);
                take.execute(pool).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
