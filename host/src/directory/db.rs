//! The database behind the directory: SQLite or PostgreSQL, opened, brought up to date, and spoken to with one text of each
//! query. `$1` is a parameter in both.
//!
//! ```ignore
//! const BY_ID: &str = "SELECT id, address FROM accounts WHERE id = $1";
//! on!(&self.db, pool => sqlx::query_as::<_, Row>(BY_ID).bind(id).fetch_optional(pool).await)?
//! ```
//!
//! What the two do not share is how they are opened, in [`sqlite`] and [`postgres`], and how rows are locked, in
//! [`Tx::lock_account`], [`Tx::lock_domain`], [`Tx::keep_domain`] and [`Tx::keep_module`].

mod look_up;
#[cfg(any(test, feature = "testing"))]
pub(super) mod migrations;
#[cfg(not(any(test, feature = "testing")))]
mod migrations;
mod postgres;
mod sqlite;

use std::time::Duration;

use sqlx::{PgPool, Postgres, Sqlite, SqlitePool, Transaction};

use super::last_logins::LastLogins;
use crate::config;
pub(super) use look_up::{LookUp, Looked, Row};
pub(super) use sqlite::LastLoginsFile;

/// How long a request waits for a connection of the pool before it fails.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// READ COMMITTED by name, since a database's default may be another: what waited for [`Tx::lock_account`] has to see what
/// the other did.
const BEGIN_POSTGRES: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const BEGIN_SQLITE: &str = "BEGIN IMMEDIATE";

/// Reads what mail servers read as well, so that it fails where they would.
const PING: &str = "SELECT version FROM mailserver_version";

/// NO KEY, so that rows which only refer to the account can still be written beside it.
const LOCK_ACCOUNT: &str = "SELECT 1 FROM accounts WHERE id = $1 FOR NO KEY UPDATE";

/// Many may claim a domain of which there is no row yet. The number is this query's own.
const LOCK_DOMAIN: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 6016254202))";
const KEEP_DOMAIN: &str = "SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 6016254202))";

/// KEY, so that it may be switched and rolled back meanwhile. On SQLite nobody else writes.
const KEEP_MODULE_SQLITE: &str = "SELECT 1 FROM modules WHERE module = $1";
const KEEP_MODULE_POSTGRES: &str = "SELECT 1 FROM modules WHERE module = $1 FOR KEY SHARE";

/// Why the database did not do what was asked. Its detail is for the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database failed or cannot be reached.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
    /// The same, of what is read in place.
    #[error("the database failed: {0}")]
    LookUp(#[from] rusqlite::Error),
    /// The tables could not be brought up to date.
    #[error("the database could not be brought up to date: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// The configuration's `database.url` is of no known kind, or a file of it cannot be used.
    #[error("{0}")]
    Unusable(String),
}

/// A pool of connections to one of the two.
#[derive(Clone, Debug)]
pub enum Db {
    /// SQLite.
    Sqlite(SqlitePool),
    /// PostgreSQL.
    Postgres(PgPool),
}

/// A database as it was opened.
pub(super) struct Opened {
    pub(super) db: Db,
    /// Where single rows of it are read.
    pub(super) look_up: LookUp,
    /// Where the mail server tells of log-ins.
    pub(super) last_logins: LastLogins,
}

/// A transaction on one of the two. Dropped without [`Tx::commit`], it is undone.
#[derive(Debug)]
pub enum Tx {
    /// SQLite. Begun IMMEDIATE: a writer waits for its turn at the beginning, not in the middle.
    Sqlite(Transaction<'static, Sqlite>),
    /// PostgreSQL, READ COMMITTED.
    Postgres(Transaction<'static, Postgres>),
}

/// Runs one expression on whichever database it is: `on!(db, pool => …)`, where `db` is a `&Db` and `pool` an executor that may
/// be used again and again.
macro_rules! on {
    ($db:expr, $executor:ident => $body:expr) => {
        match $db {
            $crate::directory::db::Db::Sqlite($executor) => $body,
            $crate::directory::db::Db::Postgres($executor) => $body,
        }
    };
}

/// The same within a transaction: `on_tx!(tx, executor => …)`, where `tx` is a `&mut Tx`. The executor serves one query.
macro_rules! on_tx {
    ($tx:expr, $executor:ident => $body:expr) => {
        match $tx {
            $crate::directory::db::Tx::Sqlite(tx) => {
                let $executor = &mut **tx;
                $body
            }
            $crate::directory::db::Tx::Postgres(tx) => {
                let $executor = &mut **tx;
                $body
            }
        }
    };
}

pub(crate) use {on, on_tx};

impl Db {
    /// Opens the database and brings its tables and what mail servers read up to date. Several services may do so at once.
    ///
    /// # Errors
    /// [`Error`] where it cannot be opened or brought up to date.
    pub async fn open(config: &config::Database) -> Result<Self, Error> {
        Ok(Self::open_whole(config).await?.db)
    }

    /// The same, with what else is read beside it.
    pub(super) async fn open_whole(config: &config::Database) -> Result<Opened, Error> {
        match config.url.split_once(':') {
            Some(("sqlite", _)) => {
                let (pool, main, last_logins) = sqlite::open(config).await?;
                Ok(Opened {
                    db: Self::Sqlite(pool),
                    look_up: LookUp::Sqlite(main),
                    last_logins: LastLogins::File(last_logins),
                })
            }
            Some(("postgres" | "postgresql", _)) => {
                let pool = postgres::open(config).await?;
                Ok(Opened {
                    db: Self::Postgres(pool.clone()),
                    look_up: LookUp::Postgres(pool.clone()),
                    last_logins: LastLogins::Table(pool),
                })
            }
            // The value itself may hold a password: it is not repeated.
            _ => Err(Error::Unusable(
                "`database.url` is neither `sqlite:FILE` nor `postgres://…`".into(),
            )),
        }
    }

    /// Begins a transaction that writes.
    ///
    /// # Errors
    /// [`Error::Database`] where none can be begun.
    pub async fn begin(&self) -> Result<Tx, Error> {
        Ok(match self {
            Self::Sqlite(pool) => Tx::Sqlite(pool.begin_with(BEGIN_SQLITE).await?),
            Self::Postgres(pool) => Tx::Postgres(pool.begin_with(BEGIN_POSTGRES).await?),
        })
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// [`Error::Database`] where it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        on!(self, pool => sqlx::query(PING).execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Makes what mail servers read what the tables say it is. On PostgreSQL, where they read the tables, there is nothing to do.
    ///
    /// # Errors
    /// [`Error::Database`] where it cannot; all is as it was then.
    pub async fn repair_mailserver(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(pool) => sqlite::repair(pool).await,
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Closes every connection once what is under way has ended.
    pub async fn close(&self) {
        on!(self, pool => pool.close().await);
    }
}

impl Tx {
    /// Makes transactions that change what acts for one account take turns: begin each with this, and no two can wait for each
    /// other. What is read afterwards is what the one before left. On SQLite all that write take turns anyway.
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

    /// Whether a module is installed. Where it is, it is not removed before the end of the transaction. Where one locks an account too, that comes first.
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database fails.
    pub async fn keep_module(&mut self, module: &str) -> Result<bool, Error> {
        let installed: Option<i32> = match self {
            Self::Sqlite(tx) => {
                sqlx::query_scalar(KEEP_MODULE_SQLITE)
                    .bind(module)
                    .fetch_optional(&mut **tx)
                    .await?
            }
            Self::Postgres(tx) => {
                sqlx::query_scalar(KEEP_MODULE_POSTGRES)
                    .bind(module)
                    .fetch_optional(&mut **tx)
                    .await?
            }
        };
        Ok(installed.is_some())
    }

    /// Makes transactions that change whose a domain is take turns. Where one locks an account too, that comes first.
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database fails.
    pub async fn lock_domain(&mut self, domain: &str) -> Result<(), Error> {
        self.advisory(LOCK_DOMAIN, domain).await
    }

    /// Makes transactions that change whose a domain is wait until this one has ended, and this one for them; others that do the same do
    /// not wait. Where one locks an account too, that comes first.
    ///
    /// # Errors
    /// Returns [`Error::Database`] if the database fails.
    pub async fn keep_domain(&mut self, domain: &str) -> Result<(), Error> {
        self.advisory(KEEP_DOMAIN, domain).await
    }

    /// On SQLite whoever writes is alone anyway.
    async fn advisory(&mut self, lock: &'static str, of: &str) -> Result<(), Error> {
        if let Self::Postgres(tx) = self {
            sqlx::query(lock).bind(of).execute(&mut **tx).await?;
        }
        Ok(())
    }

    /// Makes what was done in it last. On SQLite the keys go now that a milter is to have no longer.
    ///
    /// # Errors
    /// [`Error::Database`] where it cannot; nothing of it lasts then.
    pub async fn commit(self) -> Result<(), Error> {
        match self {
            Self::Sqlite(mut tx) => {
                sqlite::withdraw(&mut tx).await?;
                tx.commit().await?;
            }
            Self::Postgres(tx) => tx.commit().await?,
        }
        Ok(())
    }
}
