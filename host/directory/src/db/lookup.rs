//! Looks up single rows by key. Nearly every request needs a lookup.
//!
//! On SQLite, lookups read on the calling thread. A pooled sqlx connection uses its own thread, and
//! a switch between threads takes several times as long as a lookup.
//!
//! A lookup does not block the calling thread for long. A lookup reads one row through an index. In
//! WAL mode, a reader does not wait for a writer.
//!
//! After a crash, SQLite recovers the write-ahead log and locks the file exclusively. Lookups are
//! retried during this time.

use crate::debug::debug_fields;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::{FromSql, ToSqlOutput};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};
use sqlx::postgres::PgRow;
use sqlx::{Decode, PgPool, Postgres, Row as _, Type};
use tokio::time::{Instant, sleep};

use super::Error;
use super::query::{Parameter, Parameters, bind};
use super::sqlite::BUSY_TIMEOUT;
use super::sqlite::writer::Uncommitted;

/// The delay before the next attempt of a lookup, if another connection has locked the file
/// exclusively.
const AGAIN: Duration = Duration::from_millis(1);

/// The names of the parameters in a query.
const NAMES: [&str; 3] = ["$1", "$2", "$3"];

/// The source of lookups.
#[derive(Clone, Debug)]
pub(crate) enum Lookup {
    /// Reads the SQLite file on the calling thread.
    Sqlite(File),
    /// Queries the PostgreSQL server.
    Postgres(PgPool),
}

/// A row of an SQLite or PostgreSQL database.
pub(crate) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a PgRow),
}

/// A value that is read from a row.
pub(crate) trait FromLookup: Sized {
    /// Reads the value from a row.
    ///
    /// # Errors
    /// Returns [`Error`] if a column is missing or has another type.
    fn of(row: &Row<'_>) -> Result<Self, Error>;
}

/// For queries that only check whether a row exists.
impl FromLookup for () {
    fn of(_row: &Row<'_>) -> Result<Self, Error> {
        Ok(())
    }
}

/// A type that can be read from a column of SQLite and of PostgreSQL.
pub(crate) trait Column: FromSql + for<'r> Decode<'r, Postgres> + Type<Postgres> {}

impl<T: FromSql + for<'r> Decode<'r, Postgres> + Type<Postgres>> Column for T {}

/// An SQLite file with idle connections. Each concurrent lookup uses one connection.
#[derive(Clone)]
pub(crate) struct File {
    path: Arc<Path>,
    /// The idle connections. `None` after [`Lookup::close`] was called.
    idle: Arc<Mutex<Option<Vec<Connection>>>>,
    uncommitted: Uncommitted,
}

debug_fields!(File { path });

impl Lookup {
    /// Returns the row that matches the query, or `None` if no row matches.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub(crate) async fn one<'p, T: FromLookup>(
        &self,
        query: &'static str,
        parameters: impl Parameters<'p>,
    ) -> Result<Option<T>, Error> {
        match self {
            Self::Sqlite(file) => file.one(query, &parameters.list()).await,
            Self::Postgres(pool) => {
                let bound = bind!(sqlx::query(query), parameters);
                let row = bound.fetch_optional(pool).await?;
                row.map(|row| T::of(&Row::Postgres(&row))).transpose()
            }
        }
    }

    /// Closes the idle connections. After that, the last connection of the pool is also the last
    /// connection to the file. A lookup after this call opens a new connection.
    pub(crate) fn close(&self) {
        if let Self::Sqlite(file) = self {
            *file.idle() = None;
        }
    }
}

impl File {
    pub(super) fn new(path: PathBuf, uncommitted: Uncommitted) -> Self {
        Self {
            path: path.into(),
            idle: Arc::new(Mutex::new(Some(Vec::new()))),
            uncommitted,
        }
    }

    async fn one<T: FromLookup>(
        &self,
        query: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<T>, Error> {
        self.uncommitted.committed().await;
        let began = Instant::now();
        loop {
            match self.with_connection(|connection| first(connection, query, parameters)) {
                Err(Error::Lookup(error)) if is_busy(&error) && began.elapsed() < BUSY_TIMEOUT => {
                    sleep(AGAIN).await;
                }
                looked => return looked,
            }
        }
    }

    /// Runs `read` with a connection, on a thread for blocking operations. For queries that return
    /// many rows.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.uncommitted.committed().await;
        let file = self.clone();
        let result = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            loop {
                match file.with_connection(&read) {
                    Err(Error::Lookup(error))
                        if is_busy(&error) && began.elapsed() < BUSY_TIMEOUT =>
                    {
                        std::thread::sleep(AGAIN);
                    }
                    result => return result,
                }
            }
        });
        let ended = |error| Error::Unusable(format!("a query ended early: {error}"));
        result.await.map_err(ended)?
    }

    fn with_connection<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let idle = self.idle().as_mut().and_then(Vec::pop);
        let connection = idle.map_or_else(|| self.connect(), Ok)?;
        let result = read(&connection)?;
        // Do not reuse a connection after a failed query.
        if let Some(idle) = self.idle().as_mut() {
            idle.push(connection);
        }
        Ok(result)
    }

    fn connect(&self) -> Result<Connection, rusqlite::Error> {
        // SQLite's mutex is not needed, because only one thread at a time uses a connection.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(Duration::ZERO)?;
        Ok(connection)
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first<T: FromLookup>(
    connection: &Connection,
    query: &'static str,
    parameters: &[Parameter<'_>],
) -> Result<Option<T>, Error> {
    let mut statement = connection.prepare_cached(query)?;
    // Bind parameters by name, because SQLite numbers parameters in the order of their first use in
    // the query.
    for (at, parameter) in parameters.iter().enumerate() {
        let name = NAMES.get(at).copied().unwrap_or_default();
        let index = statement.parameter_index(name)?;
        let index = index.ok_or_else(|| rusqlite::Error::InvalidParameterName(name.into()))?;
        statement.raw_bind_parameter(index, parameter)?;
    }
    let mut rows = statement.raw_query();
    let row = rows.next()?;
    row.map(|row| T::of(&Row::Sqlite(row))).transpose()
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

impl Row<'_> {
    /// Returns the value of a column.
    ///
    /// # Errors
    /// Returns [`Error`] if the column is missing or has another type.
    pub(crate) fn get<T: Column>(&self, column: &str) -> Result<T, Error> {
        Ok(match self {
            Self::Sqlite(row) => row.get(column)?,
            Self::Postgres(row) => row.try_get(column)?,
        })
    }
}

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Text(text) => text.to_sql(),
            Self::Number(number) => number.to_sql(),
            Self::Boolean(value) => value.to_sql(),
            Self::Bytes(bytes) => bytes.to_sql(),
        }
    }
}

#[cfg(test)]
mod tests;
