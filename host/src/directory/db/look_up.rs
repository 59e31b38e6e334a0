//! Look-ups: rows that nearly every request asks for, by their keys.
//!
//! On SQLite they are read on the thread that asks. A connection of the pool works on a thread of its own: to wake it and to be woken by it takes several
//! times as long as to read a row, and to send one message asks three times. What is read here is little and found by an index. Nothing is
//! written here, and nobody is waited for on a thread that others need: who reads waits for no writer (WAL), and in the moment in which a log is
//! recovered, as after a crash, the question is asked again a little later.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::{FromSql, ToSqlOutput};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};
use sqlx::postgres::PgRow;
use sqlx::{Decode, PgPool, Postgres, Row as _, Type};
use tokio::time::{Instant, sleep};

use super::Error;
use super::sqlite::BUSY_TIMEOUT;

/// How soon a look-up is tried again where the file is somebody else's alone.
const AGAIN: Duration = Duration::from_millis(1);

/// The parameters that a look-up may have.
const NAMES: [&str; 3] = ["$1", "$2", "$3"];

/// Where rows are looked up.
#[derive(Clone, Debug)]
pub(in crate::directory) enum LookUp {
    /// In the file, in place.
    Sqlite(File),
    /// At the server.
    Postgres(PgPool),
}

/// A parameter of a query.
#[derive(Clone, Copy, Debug)]
pub(in crate::directory) enum Parameter<'a> {
    Text(&'a str),
    Number(i64),
}

/// A row of either database.
pub(in crate::directory) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a PgRow),
}

/// What is read of a row.
pub(in crate::directory) trait Looked: Sized {
    /// The row as the caller knows it.
    ///
    /// # Errors
    /// [`Error`] where the row is not what the query promises.
    fn of(row: &Row<'_>) -> Result<Self, Error>;
}

/// That there is one.
impl Looked for () {
    fn of(_row: &Row<'_>) -> Result<Self, Error> {
        Ok(())
    }
}

/// A column's type in both databases.
pub(in crate::directory) trait Column:
    FromSql + for<'r> Decode<'r, Postgres> + Type<Postgres>
{
}

impl<T: FromSql + for<'r> Decode<'r, Postgres> + Type<Postgres>> Column for T {}

/// SQLite's file and the connections to it that nobody uses at this moment. There are never more of them than threads that looked something up at once.
#[derive(Clone)]
pub(in crate::directory) struct File {
    path: Arc<Path>,
    /// None once it is closed.
    idle: Arc<Mutex<Option<Vec<Connection>>>>,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl LookUp {
    /// The row that the query finds; none where it finds none.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub(in crate::directory) async fn one<T: Looked>(
        &self,
        query: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<T>, Error> {
        match self {
            Self::Sqlite(file) => file.one(query, parameters).await,
            Self::Postgres(pool) => {
                let query = sqlx::query(query);
                let bound = parameters
                    .iter()
                    .fold(query, |query, parameter| match parameter {
                        Parameter::Text(text) => query.bind(*text),
                        Parameter::Number(number) => query.bind(*number),
                    });
                let row = bound.fetch_optional(pool).await?;
                row.map(|row| T::of(&Row::Postgres(&row))).transpose()
            }
        }
    }

    /// Lets go of the file, so that whoever closes it last finds nobody else there. Who looks up something after that does so on a connection of its own.
    pub(in crate::directory) fn close(&self) {
        if let Self::Sqlite(file) = self {
            *file.idle() = None;
        }
    }
}

impl File {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path: path.into(),
            idle: Arc::new(Mutex::new(Some(Vec::new()))),
        }
    }

    async fn one<T: Looked>(
        &self,
        query: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<T>, Error> {
        let began = Instant::now();
        loop {
            match self.look(query, parameters) {
                Err(Error::LookUp(error)) if is_busy(&error) && began.elapsed() < BUSY_TIMEOUT => {
                    sleep(AGAIN).await;
                }
                looked => return looked,
            }
        }
    }

    fn look<T: Looked>(
        &self,
        query: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<T>, Error> {
        let idle = self.idle().as_mut().and_then(Vec::pop);
        let connection = idle.map_or_else(|| self.connect(), Ok)?;
        let looked = first(&connection, query, parameters)?;
        // One that failed is not used again.
        if let Some(idle) = self.idle().as_mut() {
            idle.push(connection);
        }
        Ok(looked)
    }

    fn connect(&self) -> Result<Connection, rusqlite::Error> {
        // Each is one thread's at a time.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(Duration::ZERO)?;
        Ok(connection)
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first<T: Looked>(
    connection: &Connection,
    query: &'static str,
    parameters: &[Parameter<'_>],
) -> Result<Option<T>, Error> {
    let mut statement = connection.prepare_cached(query)?;
    // By their names: to SQLite the first is what a query names first.
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
    /// A column by its name.
    ///
    /// # Errors
    /// [`Error`] where there is none, or it holds something else.
    pub(in crate::directory) fn get<T: Column>(&self, column: &str) -> Result<T, Error> {
        Ok(match self {
            Self::Sqlite(row) => row.get(column)?,
            Self::Postgres(row) => row.try_get(column)?,
        })
    }
}

impl<'a> From<&'a str> for Parameter<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Parameter<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Text(text) => text.to_sql(),
            Self::Number(number) => number.to_sql(),
        }
    }
}

#[cfg(test)]
mod tests;
