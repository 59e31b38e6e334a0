//! The app passwords of mail clients in a restored database. A restored database can contain app
//! passwords that were revoked after the backup.

use std::collections::HashSet;
use std::path::Path;

use latchmail_core::clock::Timestamp;
use latchmail_core::config;
use rusqlite::{Connection, OpenFlags};
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::credentials::{self, Credentials};
use crate::db::{Error, postgres_options, unusable};

const VALID: &str = "SELECT p.id, a.address, p.label, p.created_at FROM app_passwords p JOIN accounts a ON a.id = p.account_id \
    WHERE p.kind = 'app_password' AND a.active AND (p.expires_at IS NULL OR p.expires_at > $1) ORDER BY a.address, p.created_at, p.id";
const IDS: &str = "SELECT id FROM app_passwords WHERE kind = 'app_password'";
const HAS_ACCOUNTS: &str = "SELECT EXISTS (SELECT 1 FROM accounts)";

/// An app password of a mail client.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct ClientPassword {
    /// The id of the app password.
    pub id: String,
    /// The address of the account.
    pub address: String,
    /// The name that the user gave to the app password.
    pub label: Option<String>,
    /// The time of creation, in milliseconds since the Unix epoch.
    pub created_at: i64,
}

impl Credentials {
    /// Returns the valid app passwords of mail clients of all accounts, sorted by address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn client_passwords(&self, now: Timestamp) -> Result<Vec<ClientPassword>, Error> {
        self.db.all(VALID, [now]).await
    }

    /// Ends app passwords.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn end_client_passwords(&self, passwords: &[ClientPassword]) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        for password in passwords {
            credentials::delete(&mut tx, &password.id).await?;
        }
        tx.commit().await
    }
}

/// Returns the ids of the app passwords of mail clients in the database that a backup replaces.
/// `replaced` is the path of an SQLite file, or the name of a database on the configured
/// `PostgreSQL` server.
///
/// # Errors
/// Returns [`Error`] if the database cannot be read, or if it contains no account, because a
/// database without accounts cannot be the replaced database.
pub async fn replaced_client_passwords(
    config: &config::Database,
    replaced: &str,
) -> Result<HashSet<String>, Error> {
    let (has_accounts, ids) = if config.url.starts_with("sqlite:") {
        let file = replaced.to_owned();
        super::sqlite::blocking(move || read_sqlite(Path::new(&file))).await?
    } else {
        let options = postgres_options(config)?.database(replaced);
        let mut connection: PgConnection = options.connect().await?;
        let has_accounts: bool = sqlx::query_scalar(HAS_ACCOUNTS)
            .fetch_one(&mut connection)
            .await?;
        let ids: Vec<String> = sqlx::query_scalar(IDS).fetch_all(&mut connection).await?;
        connection.close().await?;
        (has_accounts, ids)
    };
    if !has_accounts {
        return Err(Error::Unusable(format!(
            "the database {replaced} contains no account, so it is not the replaced database"
        )));
    }
    Ok(ids.into_iter().collect())
}

fn read_sqlite(file: &Path) -> Result<(bool, Vec<String>), Error> {
    // A database in WAL mode cannot be opened read-only if its -shm file is missing. The flags do
    // not contain CREATE, so that SQLite does not create a missing database.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    std::fs::metadata(file).map_err(|error| unusable(file, &error))?;
    let connection = Connection::open_with_flags(file, flags)?;
    let has_accounts = connection.query_row(HAS_ACCOUNTS, [], |row| row.get(0))?;
    let mut statement = connection.prepare(IDS)?;
    let ids = statement.query_map([], |row| row.get(0))?;
    Ok((has_accounts, ids.collect::<Result<_, _>>()?))
}
