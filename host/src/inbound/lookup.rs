//! What the milter asks the directory: which domains receive mail here, and which addresses a log-in may send from. Reads the tables that mail servers read.

use std::time::Duration;

use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

use crate::error::StartError;
use crate::{config, directory};

const IS_LOCAL: &str = "SELECT COUNT(*) FROM mailserver_domains WHERE domain = $1";

/// A mail client's log-in is its account's address, a slash and the id of its app password; the service's is the address.
const MAY_SEND: &str = "SELECT COUNT(*) FROM mailserver_senders WHERE address = $1 AND (login = $2 OR login || '/' = substr($2, 1, length(login) + 1))";

const CONNECTIONS: u32 = 4;

/// Shorter than Postfix waits for a milter.
const PATIENCE: Duration = Duration::from_secs(10);

/// The directory as mail servers see it. Connects when it is first asked.
#[derive(Clone, Debug)]
pub(super) enum Lookup {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Lookup {
    pub(super) fn new(config: &config::Database) -> Result<Self, StartError> {
        if config.url.starts_with("postgres") {
            let options =
                directory::postgres_options(config).map_err(|e| StartError::new(e.to_string()))?;
            let pool = PgPoolOptions::new()
                .max_connections(CONNECTIONS)
                .acquire_timeout(PATIENCE);
            return Ok(Self::Postgres(pool.connect_lazy_with(options)));
        }
        let file =
            directory::mailserver_file(config).map_err(|e| StartError::new(e.to_string()))?;
        // Closing the last connection that can write would delete the `-wal` file, which mail daemons cannot create.
        let options = SqliteConnectOptions::new()
            .filename(file)
            .read_only(true)
            .busy_timeout(PATIENCE);
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE);
        Ok(Self::Sqlite(pool.connect_lazy_with(options)))
    }

    /// Whether a domain receives mail here. `domain` is folded.
    pub(super) async fn is_local(&self, domain: &str) -> Result<bool, sqlx::Error> {
        let count: i64 = match self {
            Self::Sqlite(pool) => {
                let query = sqlx::query_scalar(IS_LOCAL).bind(domain);
                query.fetch_one(pool).await?
            }
            Self::Postgres(pool) => {
                let query = sqlx::query_scalar(IS_LOCAL).bind(domain);
                query.fetch_one(pool).await?
            }
        };
        Ok(count > 0)
    }

    /// Whether a log-in may send from an address. `address` is folded.
    pub(super) async fn may_send(&self, login: &str, address: &str) -> Result<bool, sqlx::Error> {
        let count: i64 = match self {
            Self::Sqlite(pool) => {
                let query = sqlx::query_scalar(MAY_SEND).bind(address).bind(login);
                query.fetch_one(pool).await?
            }
            Self::Postgres(pool) => {
                let query = sqlx::query_scalar(MAY_SEND).bind(address).bind(login);
                query.fetch_one(pool).await?
            }
        };
        Ok(count > 0)
    }
}
