//! The key with which the milter marks its authentication results in messages. The milter reads the
//! key from the data for mail servers, see [`crate::mailserver`].

use zeroize::Zeroizing;

use super::Keys;
use crate::db::Error;

const INSERT: &str =
    "INSERT INTO results_key (id, secret) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";
const FIND: &str = "SELECT secret FROM results_key WHERE id = 1";

impl Keys {
    /// Returns the key. If the database has no key, stores `new`. Services that start concurrently
    /// get the same key.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn results_key(&self, new: &str) -> Result<Zeroizing<String>, Error> {
        let found: Option<String> = self.db.optional_value(FIND, ()).await?;
        if let Some(key) = found {
            return Ok(key.into());
        }
        self.db.execute(INSERT, [new]).await?;
        self.db.repair_mailserver().await?;
        let key: String = self.db.value(FIND, ()).await?;
        Ok(key.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::mailserver::MailServerView;
    use crate::testing::{Fresh, both};

    async fn the_first_key_is_kept_and_the_milter_reads_it(fresh: Fresh) {
        let view = MailServerView::new(&fresh.config).unwrap();
        assert!(view.results_key().await.unwrap().is_none());
        for new in ["first", "second"] {
            let key = fresh.directory.keys.results_key(new).await.unwrap();
            assert_eq!(*key, "first");
        }
        let key = view.results_key().await.unwrap().unwrap();
        assert_eq!(*key, "first");
        // A mail server that changes the key causes no forged results.
        if let Some(file) = fresh.mailserver_file() {
            let changed = format!("sqlite:{}", file.display());
            let pool = sqlx::SqlitePool::connect(&changed).await.unwrap();
            let change = "UPDATE mailserver_results_key SET secret = 'other'";
            sqlx::query(change).execute(&pool).await.unwrap();
            fresh.directory.db().repair_mailserver().await.unwrap();
            let key = view.results_key().await.unwrap().unwrap();
            assert_eq!(*key, "first");
        }
    }

    async fn a_database_of_an_older_version_has_no_key(fresh: Fresh) {
        let view = MailServerView::new(&fresh.config).unwrap();
        if let Some(file) = fresh.mailserver_file() {
            let url = format!("sqlite:{}", file.display());
            let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
            let drop = sqlx::query("DROP TABLE mailserver_results_key");
            drop.execute(&pool).await.unwrap();
        } else {
            let pool = sqlx::PgPool::connect(&fresh.config.url).await.unwrap();
            let drop = sqlx::query("DROP VIEW mailserver_results_key");
            drop.execute(&pool).await.unwrap();
        }
        assert!(view.results_key().await.unwrap().is_none());
    }

    both!(
        the_first_key_is_kept_and_the_milter_reads_it,
        a_database_of_an_older_version_has_no_key,
    );
}
