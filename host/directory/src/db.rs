//! The database of the directory. The database is an SQLite database or a PostgreSQL database. This
//! module opens and migrates the database. The text of a query is the same for SQLite and
//! PostgreSQL, because both databases accept `$1` as a parameter.
//!
//! ```ignore
//! const BY_ID: &str = "SELECT id, address FROM accounts WHERE id = $1";
//! let row: Option<Row> = self.db.optional(BY_ID, [id]).await?;
//! ```
//!
//! On SQLite, every change goes through one [`Writer`], and the connections of the pool can only
//! read. On PostgreSQL, every connection of the pool can write.
//!
//! SQLite and PostgreSQL are opened in different ways, see [`sqlite`] and [`postgres`]. Locks on
//! rows also differ, see [`Tx::lock_account`], [`Tx::lock_domain`], [`Tx::lock_domain_shared`] and
//! [`Tx::lock_module_shared`].

mod inspection;
mod lookup;
#[cfg(any(test, feature = "testing"))]
pub(super) mod migrations;
#[cfg(not(any(test, feature = "testing")))]
mod migrations;
mod outage;
mod postgres;
mod query;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::codes;
use latchmail_core::config;
use latchmail_core::error::Failure;
use latchmail_core::metrics;
use sqlx::{PgPool, Postgres, SqlitePool, Transaction};

pub(crate) use inspection::{APPLIED, compare_postgres, compare_sqlite};
pub use inspection::{Inspection, Schema, SqliteFiles, inspect, sqlite_files};
pub(super) use lookup::{FromLookup, Lookup, Row};
pub(crate) use outage::Changed;
pub(super) use postgres::options as postgres_options;
pub(crate) use query::Parameters;
pub(super) use sqlite::mailserver_file;
pub(crate) use sqlite::projection::Source;
pub use sqlite::writer::{SqliteTx, Writer};
pub(crate) use sqlite::{BUSY_TIMEOUT, LastLoginsFile, SqlitePaths, beside, unusable};

/// Maximum time that a request waits for a connection of the pool. After this time, the request
/// fails.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// READ COMMITTED is set explicitly, because the default of a database can be different. A
/// transaction that waited for [`Tx::lock_account`] must read the changes of the previous holder of
/// the lock.
const BEGIN_POSTGRES: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const BEGIN_SQLITE: &str = "BEGIN IMMEDIATE";
const COMMIT_SQLITE: &str = "COMMIT";
/// All queries of a snapshot read the same state of the database.
pub(super) const SNAPSHOT_POSTGRES: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Reads one of the views that the mail servers use. So the query also fails if the mail servers
/// cannot read their data.
const PING: &str = "SELECT version FROM mailserver_version";

/// Locks the row of an account. `NO KEY` allows other transactions to write rows that refer to the
/// account.
const LOCK_ACCOUNT: &str = "SELECT 1 FROM accounts WHERE id = $1 FOR NO KEY UPDATE";

/// Locks a domain with an advisory lock. A row lock is not enough, because several accounts can
/// claim a domain that has no row yet. No other advisory lock uses this seed of the hash function.
const LOCK_DOMAIN: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 6016254202))";
const LOCK_DOMAIN_SHARED: &str =
    "SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 6016254202))";

/// Returns a row if a module is installed. On PostgreSQL, also locks the row with `KEY SHARE`.
/// Other transactions can then enable, disable or roll back the module, but not remove it. SQLite
/// needs no lock, because SQLite has one writer at a time.
const LOCK_MODULE_SHARED_SQLITE: &str = "SELECT 1 FROM modules WHERE module = $1";
const LOCK_MODULE_SHARED_POSTGRES: &str = "SELECT 1 FROM modules WHERE module = $1 FOR KEY SHARE";

/// The error code of `PostgreSQL` for a missing table or view.
const POSTGRES_UNDEFINED_TABLE: &str = "42P01";

/// The reason why a database operation failed. The details are only for the service's log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database failed or is unreachable.
    #[error("the database failed: {0}")]
    Database(#[source] sqlx::Error),
    /// The commit of a group of transactions failed, so none of them changed anything.
    #[error("the database failed to commit: {0}")]
    Commit(#[source] Arc<sqlx::Error>),
    /// Too many transactions wait for the writer of an SQLite database, or a transaction has waited
    /// too long.
    #[error("the database is busy: {0}")]
    Busy(&'static str),
    /// An SQLite query outside of the connection pool failed.
    #[error("the database failed: {0}")]
    Lookup(#[source] rusqlite::Error),
    /// The migrations failed.
    #[error("the migrations of the database failed: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// The connection was lost while a change was in progress.
    #[error("it is unknown whether the database was changed: {0}")]
    Unknown(#[source] sqlx::Error),
    /// `database.url` has an unknown scheme, or a file of the database cannot be used.
    #[error("{0}")]
    Unusable(String),
}

impl Error {
    /// Returns `true` if the database does not respond or is busy. The operation changed nothing,
    /// so the caller can repeat the operation later.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Database(error) => outage::is_outage(error),
            Self::Commit(error) => outage::is_outage(error),
            Self::Busy(_) => true,
            Self::Lookup(error) => matches!(
                error.sqlite_error_code(),
                Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
            ),
            Self::Migration(_) | Self::Unknown(_) | Self::Unusable(_) => false,
        }
    }

    /// Returns the error for a transaction that cannot wait for the writer any longer.
    fn busy(reason: &'static str) -> Self {
        metrics::DATABASE_ERRORS.increment([]);
        Self::Busy(reason)
    }

    /// Returns the error for a transaction whose group was not committed.
    fn not_committed(error: Arc<sqlx::Error>) -> Self {
        metrics::DATABASE_ERRORS.increment([]);
        if matches!(*error, sqlx::Error::WorkerCrashed) {
            // The thread of the connection has ended, perhaps after the commit.
            return Self::Unknown(sqlx::Error::WorkerCrashed);
        }
        Self::Commit(error)
    }

    /// Returns the error for a `database.url` with an unknown scheme. The message does not contain
    /// the value, because the value can contain a password.
    fn unknown_scheme() -> Self {
        Self::Unusable("`database.url` is neither `sqlite:FILE` nor `postgres://…`".into())
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        metrics::DATABASE_ERRORS.increment([]);
        Self::Database(error)
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        metrics::DATABASE_ERRORS.increment([]);
        Self::Lookup(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Unknown(_) => Self::unknown(error),
            error if error.is_unavailable() => {
                let text = "The service is temporarily unavailable, please try again in a moment";
                Self::unavailable(codes::DATABASE_UNAVAILABLE, text).because(error)
            }
            error => Self::internal(error),
        }
    }
}

/// Returns `true` if a query failed because a table or view does not exist.
pub(crate) fn is_missing_table(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| {
        error.code().as_deref() == Some(POSTGRES_UNDEFINED_TABLE)
            || error.message().starts_with("no such table")
    })
}

/// A connection pool of an SQLite or PostgreSQL database.
#[derive(Clone, Debug)]
pub enum Db {
    /// SQLite: the pool, whose connections can only read, and the writer. Without a writer, the
    /// database was opened only to read it.
    Sqlite(SqlitePool, Option<Writer>),
    /// PostgreSQL.
    Postgres(PgPool),
}

/// An open database.
pub(super) struct Opened {
    pub(super) db: Db,
    /// The source of single-row lookups.
    pub(super) lookup: Lookup,
    /// The location of the log-ins that the mail servers record.
    pub(super) last_logins: LastLogins,
}

/// The location of the log-ins that the mail servers record.
#[derive(Clone, Debug)]
pub(super) enum LastLogins {
    /// A separate SQLite file.
    File(LastLoginsFile),
    /// A table of the PostgreSQL database.
    Table(PgPool),
}

/// A transaction on an SQLite or PostgreSQL database. Dropping the transaction without
/// [`Tx::commit`] rolls back the changes.
#[derive(Debug)]
pub enum Tx {
    /// A transaction on SQLite. The transaction waits for the writer at its start, and not at its
    /// first change. Until its end, no other transaction of this process can change the database.
    Sqlite(SqliteTx),
    /// A transaction on PostgreSQL, with the isolation level READ COMMITTED.
    Postgres(Transaction<'static, Postgres>),
}

/// Evaluates an expression for SQLite or PostgreSQL: `on!(db, pool => …)`. `db` is a `&Db`. `pool`
/// is an executor for any number of queries. On SQLite, these queries can only read.
macro_rules! on {
    ($db:expr, $executor:ident => $body:expr) => {
        match $db {
            $crate::db::Db::Sqlite($executor, _) => $body,
            $crate::db::Db::Postgres($executor) => $body,
        }
    };
}

/// Evaluates an expression in a transaction: `on_tx!(tx, executor => …)`. `tx` is a `&mut Tx`.
/// `executor` is an executor for one query.
macro_rules! on_tx {
    ($tx:expr, $executor:ident => $body:expr) => {
        match $tx {
            $crate::db::Tx::Sqlite(tx) => {
                let $executor = &mut **tx;
                $body
            }
            $crate::db::Tx::Postgres(tx) => {
                let $executor = &mut **tx;
                $body
            }
        }
    };
}

pub(crate) use {on, on_tx};

/// Returns the versions of the migrations of this program.
pub(crate) fn migrations_of_program() -> Vec<i64> {
    let migrations = migrations::sqlite_checksums().into_iter();
    migrations.map(|one| one.0).collect()
}

impl Db {
    /// Opens the database. Migrates the tables of the service and the tables of the mail servers.
    /// Several services can open the same database concurrently.
    ///
    /// # Errors
    /// Returns [`Error`] if the database cannot be opened or migrated.
    pub async fn open(config: &config::Database) -> Result<Self, Error> {
        Ok(Self::open_all(config).await?.db)
    }

    /// Opens the database. Returns the database, the source of lookups and the location of log-ins.
    pub(super) async fn open_all(config: &config::Database) -> Result<Opened, Error> {
        match config.url.split_once(':') {
            Some(("sqlite", _)) => {
                let (db, lookup, last_logins) = sqlite::open(config).await?;
                Ok(Opened {
                    db,
                    lookup: Lookup::Sqlite(lookup),
                    last_logins: LastLogins::File(last_logins),
                })
            }
            Some(("postgres" | "postgresql", _)) => {
                let pool = postgres::open(config).await?;
                Ok(Opened {
                    db: Self::Postgres(pool.clone()),
                    lookup: Lookup::Postgres(pool.clone()),
                    last_logins: LastLogins::Table(pool),
                })
            }
            _ => Err(Error::unknown_scheme()),
        }
    }

    /// Begins a write transaction. On SQLite, all other writers of this process wait until the
    /// transaction ends. So the caller must wait for nothing else before the end.
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database cannot begin a transaction, or [`Error::Busy`]
    /// if too many transactions wait.
    pub async fn begin(&self) -> Result<Tx, Error> {
        Ok(match self {
            Self::Sqlite(_, Some(writer)) => Tx::Sqlite(writer.begin().await?),
            Self::Sqlite(_, None) => {
                let reason = "the database was opened only to read it";
                return Err(Error::Unusable(reason.into()));
            }
            Self::Postgres(pool) => Tx::Postgres(pool.begin_with(BEGIN_POSTGRES).await?),
        })
    }

    /// Begins a write transaction that locks an account, see [`Tx::lock_account`].
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database fails.
    pub(crate) async fn begin_locked(&self, account_id: &str) -> Result<Tx, Error> {
        let mut tx = self.begin().await?;
        tx.lock_account(account_id).await?;
        Ok(tx)
    }

    /// Checks that the database responds.
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database does not respond.
    pub async fn ping(&self) -> Result<(), Error> {
        on!(self, pool => sqlx::query(PING).execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Returns the number of open connections of the pool, and the number of connections in use.
    #[must_use]
    pub fn connections(&self) -> (usize, usize) {
        on!(self, pool => {
            let open = usize::try_from(pool.size()).unwrap_or(usize::MAX);
            (open, open.saturating_sub(pool.num_idle()))
        })
    }

    /// Rebuilds the data for mail servers from the tables of the service. Does nothing on
    /// PostgreSQL, because mail servers read the tables of the service.
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database fails. Nothing is changed in that case.
    pub async fn repair_mailserver(&self) -> Result<(), Error> {
        if let Self::Postgres(_) = self {
            return Ok(());
        }
        let mut tx = self.begin().await?;
        if let Tx::Sqlite(tx) = &mut tx {
            sqlite::projection::repair(tx).await?;
        }
        tx.commit().await
    }

    /// Waits until the current operations have ended, and closes all connections.
    pub async fn close(&self) {
        if let Self::Sqlite(_, Some(writer)) = self {
            writer.close().await;
        }
        on!(self, pool => pool.close().await);
    }

    /// Returns the query for the kind of the database.
    pub(crate) fn query(&self, [sqlite, postgres]: [&'static str; 2]) -> &'static str {
        match self {
            Self::Sqlite(..) => sqlite,
            Self::Postgres(_) => postgres,
        }
    }
}

impl Tx {
    /// Locks an account until the end of the transaction. Transactions that change credentials of
    /// the same account then run one after the other. Such a transaction must call this function
    /// before its other queries. Otherwise two such transactions can deadlock.
    ///
    /// Queries after this call see the changes of the previous holder of the lock. Does nothing on
    /// SQLite, because SQLite has one writer at a time.
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database fails.
    pub async fn lock_account(&mut self, account_id: &str) -> Result<(), Error> {
        if let Self::Postgres(tx) = self {
            sqlx::query(LOCK_ACCOUNT)
                .bind(account_id)
                .execute(&mut **tx)
                .await?;
        }
        Ok(())
    }

    /// Returns `true` if a module is installed. In that case, no other transaction can remove the
    /// module before the end of this transaction. A transaction that also locks an account must
    /// lock the account first.
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database fails.
    pub async fn lock_module_shared(&mut self, module: &str) -> Result<bool, Error> {
        let query = match self {
            Self::Sqlite(_) => LOCK_MODULE_SHARED_SQLITE,
            Self::Postgres(_) => LOCK_MODULE_SHARED_POSTGRES,
        };
        self.exists(query, [module]).await
    }

    /// Locks a domain until the end of the transaction. Transactions that change the domain's owner
    /// then run one after the other. A transaction that also locks an account must lock the account
    /// first.
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database fails.
    pub async fn lock_domain(&mut self, domain: &str) -> Result<(), Error> {
        self.advisory(LOCK_DOMAIN, domain).await
    }

    /// Prevents changes of a domain's owner until the end of the transaction. Waits for
    /// transactions that are currently changing the owner. Several transactions can have this lock
    /// at the same time. A transaction that also locks an account must lock the account first.
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database fails.
    pub async fn lock_domain_shared(&mut self, domain: &str) -> Result<(), Error> {
        self.advisory(LOCK_DOMAIN_SHARED, domain).await
    }

    /// Locks the domain `of` with an advisory lock. Does nothing on SQLite, because SQLite has one
    /// writer at a time.
    async fn advisory(&mut self, lock: &'static str, of: &str) -> Result<(), Error> {
        if let Self::Postgres(tx) = self {
            sqlx::query(lock).bind(of).execute(&mut **tx).await?;
        }
        Ok(())
    }

    /// Copies the part `source` of the directory to the file of the mail servers. The caller must
    /// change this part in the same transaction, before this call. Does nothing on PostgreSQL,
    /// because mail servers read views of the database. [`sqlite::projection`] describes what this
    /// copy guarantees.
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database fails.
    pub(crate) async fn project(&mut self, source: Source<'_>) -> Result<(), Error> {
        match self {
            Self::Sqlite(tx) => sqlite::projection::project(tx, source).await,
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Commits the transaction. On SQLite, this call also deletes DKIM keys from the milter's file
    /// if the transaction has made these keys invalid, for example by releasing a domain. The
    /// changes are on the disk when this call returns.
    ///
    /// # Errors
    /// Returns [`Error::Database`] or [`Error::Commit`] if the commit fails. The transaction is
    /// rolled back in that case. Returns [`Error::Unknown`] if the connection is lost.
    pub async fn commit(mut self) -> Result<(), Error> {
        if let Self::Sqlite(tx) = &mut self {
            #[cfg(test)]
            sqlite::projection::check(tx).await?;
            if tx.has_milter {
                sqlite::withdraw(tx).await?;
            }
        }
        self.end().await
    }

    /// Commits a transaction of one statement. If the statement has made DKIM keys invalid, the
    /// next [`Tx::commit`] deletes them from the milter's file.
    async fn end(self) -> Result<(), Error> {
        match self {
            Self::Sqlite(tx) => tx.commit().await,
            Self::Postgres(tx) => tx.commit().await.changed(),
        }
    }
}
