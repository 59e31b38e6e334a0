//! Reads the tables for mail servers on behalf of a milter. The tables contain the domains for
//! which the mail server receives mail, and the addresses from which each log-in name is allowed to
//! send.

use std::time::Duration;

use latchmail_core::config;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use zeroize::Zeroizing;

use crate::db;
use crate::db::{Db, Error, on};

const IS_LOCAL: &str = "SELECT COUNT(*) FROM mailserver_domains WHERE domain = $1";

/// Counts the rows that allow a log-in to send from an address. The log-in name of a mail client is
/// the account's address, a slash and the id of the app password. The log-in name of the service is
/// the account's address.
const MAY_SEND: &str = "SELECT COUNT(*) FROM mailserver_senders WHERE address = $1 AND (login = $2 OR login || '/' = substr($2, 1, length(login) + 1))";

const RESULTS_KEY: &str = "SELECT secret FROM mailserver_results_key";

const CONNECTIONS: u32 = 4;

/// Timeout for the database. This timeout is shorter than the time that Postfix waits for a milter.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The access of a mail server to the directory. The first query opens the connection.
#[derive(Clone, Debug)]
pub struct MailServerView(Db);

impl MailServerView {
    /// Prepares the access to the configured database. Does not connect to the database.
    ///
    /// # Errors
    /// Returns [`Error::Unusable`] if the configuration is not valid.
    pub fn new(config: &config::Database) -> Result<Self, Error> {
        if config.url.starts_with("postgres") {
            let pool = PgPoolOptions::new()
                .max_connections(CONNECTIONS)
                .acquire_timeout(TIMEOUT);
            // A restore of a backup is refused while services or commands are connected. A milter
            // only reads, so its connections have another application name.
            let options = db::postgres_options(config)?.application_name("latchmail-milter");
            return Ok(Self(Db::Postgres(pool.connect_lazy_with(options))));
        }
        // The connections are read-only. If the last connection could write, closing this
        // connection would delete the `-wal` file. Mail daemons cannot create this file.
        let options = SqliteConnectOptions::new()
            .filename(db::mailserver_file(config)?)
            .read_only(true)
            .busy_timeout(TIMEOUT);
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(TIMEOUT);
        Ok(Self(Db::Sqlite(pool.connect_lazy_with(options))))
    }

    /// Returns `true` if the mail server receives mail for a domain. `domain` must be in lower case
    /// and ASCII.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn is_local(&self, domain: &str) -> Result<bool, Error> {
        let count: i64 = self.0.value(IS_LOCAL, [domain]).await?;
        Ok(count > 0)
    }

    /// Returns the key with which the milter marks its authentication results. Returns `None` if no
    /// service of this version has created the key. In an upgrade, the milter can start before the
    /// first service.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn results_key(&self) -> Result<Option<Zeroizing<String>>, Error> {
        let key: Result<Option<String>, _> =
            on!(&self.0, pool => sqlx::query_scalar(RESULTS_KEY).fetch_optional(pool).await);
        match key {
            Err(error) if db::is_missing_table(&error) => Ok(None),
            key => Ok(key?.map(Zeroizing::new)),
        }
    }

    /// Returns `true` if a log-in is allowed to send from an address. `address` must be in lower
    /// case and ASCII.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn may_send(&self, login: &str, address: &str) -> Result<bool, Error> {
        let count: i64 = self.0.value(MAY_SEND, (address, login)).await?;
        Ok(count > 0)
    }
}
