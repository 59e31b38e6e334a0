//! Opens a PostgreSQL database. Creates the connection pool, runs the migrations, and grants the
//! mail servers access to their data.

use std::str::FromStr;

use latchmail_core::config;
use latchmail_core::network::is_local;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};

use super::{ACQUIRE_TIMEOUT, Error, migrations};

const GRANTS: &str = include_str!("../../migrations/mailserver/postgres.sql");
const MILTER_GRANTS: &str = include_str!("../../migrations/mailserver/milter_postgres.sql");
/// Deletes all keys that are stored for a milter. This query runs if the configuration no longer
/// has a milter.
const NO_MILTER: &str = "DELETE FROM mailserver_dkim_keys";

/// Migrates the database, grants the privileges, and returns the connection pool. The migrations
/// and the grants take advisory locks. So services that start concurrently wait for each other.
pub(super) async fn open(config: &config::Database) -> Result<PgPool, Error> {
    let pool = PgPoolOptions::new()
        .max_connections(config.max_connections.max(1))
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_with(options(config)?)
        .await?;
    let mut connection = pool.acquire().await?;
    migrations::postgres(&mut connection).await?;
    sqlx::raw_sql(GRANTS).execute(&mut *connection).await?;
    let milter = if config.with_milter {
        MILTER_GRANTS
    } else {
        NO_MILTER
    };
    sqlx::raw_sql(milter).execute(&mut *connection).await?;
    drop(connection);
    Ok(pool)
}

/// Returns the connection options from the configuration.
///
/// # Errors
/// Returns [`Error::Unusable`] if the URL is invalid. Also returns [`Error::Unusable`] if the
/// server is on another machine and the URL does not require TLS. `database.insecure` permits such
/// a URL.
pub(crate) fn options(config: &config::Database) -> Result<PgConnectOptions, Error> {
    // The message omits the error of sqlx, because this error can contain the password from the
    // URL.
    let options = PgConnectOptions::from_str(&config.url)
        .map_err(|_| Error::Unusable("`database.url` is not a PostgreSQL URL".into()))?
        .application_name("latchmail");
    if let Some(host) = unencrypted(&options).filter(|_| !config.insecure) {
        return Err(Error::Unusable(format!(
            "`database.url` names {host}, on another machine, and the connection may not be encrypted; append `?sslmode=verify-full` to the URL, or set \
             `database.insecure = true` to allow this"
        )));
    }
    Ok(options)
}

/// Returns the server's host if the server is on another machine and the connection might not use
/// TLS.
fn unencrypted(options: &PgConnectOptions) -> Option<&str> {
    let encrypted = matches!(
        options.get_ssl_mode(),
        PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
    );
    let host = options.get_host();
    let on_socket = options.get_socket().is_some() || host.starts_with('/');
    (!encrypted && !on_socket && !is_local(host)).then_some(host)
}

#[cfg(test)]
mod tests;
