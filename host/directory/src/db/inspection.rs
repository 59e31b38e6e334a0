//! Inspects a database for the operator. Changes no data: runs no migrations and creates no files.
//! Like every reader of an SQLite database in WAL mode, the inspection writes a read mark to the
//! file `-shm`.

use std::path::{Path, PathBuf};

use latchmail_core::config;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use super::{Error, PING, migrations, postgres, sqlite};

/// Returns the migrations that succeeded. The migrator of sqlx maintains the table
/// `_sqlx_migrations`.
pub(crate) const APPLIED: &str =
    "SELECT version, checksum, description FROM _sqlx_migrations WHERE success";
const ACCOUNTS: &str = "SELECT COUNT(*) FROM accounts";

/// The schema of a database, compared with the migrations of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// The database has the migrations of this program, and possibly later migrations that are
    /// compatible with this program.
    Current,
    /// Migrations are missing. The service runs the missing migrations at its start.
    Outdated,
    /// The database has migrations that this program does not contain and is not compatible with.
    Newer,
    /// A migration in the database differs from the migration of this program.
    Different,
}

/// The result of an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The schema.
    pub schema: Schema,
    /// The number of accounts. 0 if the schema is not current.
    pub accounts: u64,
}

/// The absolute paths of the files of an `SQLite` database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteFiles {
    /// The file that only the service reads.
    pub main: PathBuf,
    /// The file that mail servers read.
    pub mailserver: PathBuf,
}

/// Returns the files of the database, or `None` if the database is not an `SQLite` database.
///
/// # Errors
/// Returns [`Error`] if the configuration of the database is not valid.
pub fn sqlite_files(config: &config::Database) -> Result<Option<SqliteFiles>, Error> {
    if !config.url.starts_with("sqlite:") {
        return Ok(None);
    }
    Ok(Some(SqliteFiles {
        main: sqlite::main_file(config)?,
        mailserver: sqlite::mailserver_file(config)?,
    }))
}

/// Reads the state of the database. Also reads the data for mail servers.
///
/// # Errors
/// Returns [`Error`] if the database cannot be opened or read, or if a file that mail servers need
/// is missing.
pub async fn inspect(config: &config::Database) -> Result<Inspection, Error> {
    if let Some(files) = sqlite_files(config)? {
        return inspect_sqlite(&files).await;
    }
    if !config.url.starts_with("postgres:") && !config.url.starts_with("postgresql:") {
        return Err(Error::unknown_scheme());
    }
    let mut connection: PgConnection = postgres::options(config)?.connect().await?;
    let applied = sqlx::query_as(APPLIED).fetch_all(&mut connection).await;
    let schema = compare_postgres(&applied_or_none(applied)?);
    let mut accounts = 0;
    if schema == Schema::Current {
        sqlx::query(PING).execute(&mut connection).await?;
        accounts = sqlx::query_scalar(ACCOUNTS)
            .fetch_one(&mut connection)
            .await?;
    }
    connection.close().await?;
    Ok(Inspection::new(schema, accounts))
}

async fn inspect_sqlite(files: &SqliteFiles) -> Result<Inspection, Error> {
    let mut connection = open_read_only(&files.main).await?;
    let applied = sqlx::query_as(APPLIED).fetch_all(&mut connection).await;
    let schema = compare_sqlite(&applied_or_none(applied)?);
    let mut accounts = 0;
    if schema == Schema::Current {
        accounts = sqlx::query_scalar(ACCOUNTS)
            .fetch_one(&mut connection)
            .await?;
    }
    connection.close().await?;
    if schema == Schema::Current {
        for suffix in ["", "-wal", "-shm"] {
            require(&sqlite::beside(&files.mailserver, suffix))?;
        }
        let mut connection = open_read_only(&files.mailserver).await?;
        sqlx::query(PING).execute(&mut connection).await?;
        connection.close().await?;
    }
    Ok(Inspection::new(schema, accounts))
}

/// Opens a file read-only. If the file has no write-ahead log, opens the file as immutable.
/// Otherwise SQLite would create the files `-wal` and `-shm`.
async fn open_read_only(file: &Path) -> Result<SqliteConnection, Error> {
    require(file)?;
    let connection = SqliteConnectOptions::new()
        .filename(file)
        .read_only(true)
        .immutable(!sqlite::beside(file, "-wal").exists())
        .connect()
        .await?;
    Ok(connection)
}

/// Returns an error if the file does not exist or is not accessible.
fn require(file: &Path) -> Result<(), Error> {
    file.metadata()
        .map(drop)
        .map_err(|error| Error::Unusable(format!("{} cannot be used: {error}", file.display())))
}

type Migrations = Vec<(i64, Vec<u8>)>;
type Applied = Vec<(i64, Vec<u8>, String)>;

/// Returns an empty list if the table of migrations does not exist. Omits later migrations that are
/// compatible with this program.
fn applied_or_none(applied: Result<Applied, sqlx::Error>) -> Result<Migrations, Error> {
    match applied {
        Err(error) if super::is_missing_table(&error) => Ok(Vec::new()),
        other => {
            let own = migrations::newest();
            let needed = other?.into_iter().filter(|(version, _, description)| {
                *version <= own || !migrations::is_compatible(*version, description)
            });
            Ok(needed
                .map(|(version, checksum, _)| (version, checksum))
                .collect())
        }
    }
}

/// Compares the migrations of an `SQLite` database with the migrations of this program.
pub(crate) fn compare_sqlite(applied: &[(i64, Vec<u8>)]) -> Schema {
    compare(applied, &migrations::sqlite_checksums())
}

/// Compares the migrations of a `PostgreSQL` database with the migrations of this program.
pub(crate) fn compare_postgres(applied: &[(i64, Vec<u8>)]) -> Schema {
    compare(applied, &migrations::postgres_checksums())
}

fn compare(applied: &[(i64, Vec<u8>)], own: &[(i64, Vec<u8>)]) -> Schema {
    let own_checksum = |version| own.iter().find(|one| one.0 == version).map(|one| &one.1);
    if applied.iter().any(|one| own_checksum(one.0).is_none()) {
        return Schema::Newer;
    }
    if applied
        .iter()
        .any(|one| own_checksum(one.0) != Some(&one.1))
    {
        return Schema::Different;
    }
    if applied.len() < own.len() {
        return Schema::Outdated;
    }
    Schema::Current
}

impl Inspection {
    fn new(schema: Schema, accounts: i64) -> Self {
        Self {
            schema,
            accounts: u64::try_from(accounts).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_current_only_with_the_same_migrations() {
        let one = (1, vec![1]);
        let own = [one.clone(), (2, vec![2])];
        assert_eq!(compare(&own, &own), Schema::Current);
        assert_eq!(compare(&[], &own), Schema::Outdated);
        assert_eq!(compare(&own[..1], &own), Schema::Outdated);
        assert_eq!(compare(&own, &own[..1]), Schema::Newer);
        assert_eq!(compare(&[one, (2, vec![9])], &own), Schema::Different);
    }

    #[tokio::test]
    async fn the_inspection_of_a_missing_database_creates_no_file() {
        let folder = std::env::temp_dir().join(format!("lm-inspection-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let config = config::Database {
            url: format!("sqlite:{}", folder.join("missing.db").display()),
            ..config::Database::default()
        };
        let error = inspect(&config).await.unwrap_err().to_string();
        assert!(error.contains("missing.db"), "{error}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
    }
}
