//! Reads the properties of a `PostgreSQL` database that `pg_dump` and `pg_restore` need, and
//! creates the SQL text that completes a restore.

use latchmail_core::config;
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions as _, Connection as _};

use super::{Restore, in_use, not_empty, require_current};
use crate::db::{APPLIED, Error, compare_postgres, postgres_options};
use crate::keys::service_keys::CURRENT;

/// Returns the name of the schema in which tables are created, the version number of the server,
/// the number of other connections of Latchmail, and whether the tables of Latchmail exist.
const STATE: &str = "SELECT current_schema()::text, current_setting('server_version_num')::integer, \
    (SELECT COUNT(*) FROM pg_stat_activity \
        WHERE datname = current_database() AND application_name = 'latchmail' AND pid <> pg_backend_pid()), \
    to_regclass('accounts') IS NOT NULL AND to_regclass('addresses') IS NOT NULL AND to_regclass('_sqlx_migrations') IS NOT NULL";
const HAS_DATA: &str = "SELECT EXISTS (SELECT 1 FROM accounts) OR EXISTS (SELECT 1 FROM addresses)";

/// The state of a `PostgreSQL` database.
#[derive(Clone, Debug)]
pub struct PostgresState {
    /// The name of the schema that contains the tables.
    pub schema: String,
    /// The major version of the server.
    pub server: u32,
    /// The version of the last migration. `None` if the database has no tables of the service.
    pub version: Option<i64>,
    current: Result<(), String>,
    has_data: bool,
    is_used: bool,
    /// The id of the service's current key. `None` if no host has used the database yet.
    pub current_key: Option<String>,
}

impl PostgresState {
    /// Returns the version of the schema.
    ///
    /// # Errors
    /// Returns [`Error::Unusable`] if the database does not have the schema of this program.
    pub fn require_current(&self) -> Result<i64, Error> {
        match (&self.current, self.version) {
            (Err(reason), Some(_)) => Err(Error::Unusable(reason.clone())),
            (Ok(()), Some(version)) => Ok(version),
            (_, None) => Err(Error::Unusable(
                "the database has no tables of Latchmail".into(),
            )),
        }
    }

    /// Checks that a backup can be restored to the database.
    ///
    /// # Errors
    /// Returns [`Error::Unusable`] if the database contains data or is in use.
    pub fn require_empty(&self) -> Result<(), Error> {
        if self.has_data {
            return Err(not_empty());
        }
        if self.is_used {
            return Err(in_use());
        }
        Ok(())
    }
}

/// Returns the state of the database.
///
/// # Errors
/// Returns [`Error`] if the database cannot be read.
pub async fn postgres_state(config: &config::Database) -> Result<PostgresState, Error> {
    let mut connection: PgConnection = postgres_options(config)?.connect().await?;
    let (schema, server, clients, has_tables): (Option<String>, i32, i64, bool) =
        sqlx::query_as(STATE).fetch_one(&mut connection).await?;
    let schema = schema.ok_or_else(|| {
        Error::Unusable("the database has no schema in which tables can be created".into())
    })?;
    let (mut version, mut current, mut has_data, mut current_key) = (None, Ok(()), false, None);
    if has_tables {
        let applied: Vec<(i64, Vec<u8>)> =
            sqlx::query_as(APPLIED).fetch_all(&mut connection).await?;
        version = applied.iter().map(|one| one.0).max();
        current = require_current(compare_postgres(&applied)).map_err(|error| error.to_string());
        has_data = sqlx::query_scalar(HAS_DATA)
            .fetch_one(&mut connection)
            .await?;
        if current.is_ok() {
            current_key = sqlx::query_scalar(CURRENT)
                .fetch_optional(&mut connection)
                .await?;
        }
    }
    connection.close().await?;
    Ok(PostgresState {
        schema,
        server: u32::try_from(server / 10_000).unwrap_or(0),
        version,
        current,
        has_data,
        is_used: clients > 0,
        current_key,
    })
}

/// Returns the SQL text that runs after the output of `pg_restore`, in the same transaction.
#[must_use]
pub fn postgres_script(schema: &str, restore: &Restore) -> String {
    let schema = schema.replace('"', "\"\"");
    format!(
        "SET LOCAL search_path TO \"{schema}\";\n{}",
        restore.script()
    )
}
