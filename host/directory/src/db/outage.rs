//! Recognizes errors of a database that does not respond or is busy.

use std::io::ErrorKind;

use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;

use super::Error;

/// The result codes of SQLite for a locked file and a locked table. The lower 8 bits of an extended
/// code are the primary code.
const SQLITE_BUSY: i32 = 5;
const SQLITE_LOCKED: i32 = 6;

/// The error codes of `PostgreSQL` for lost and refused connections, for a server that starts or
/// stops, and for conflicts with other transactions. In each case, the server rolls back the
/// transaction of the statement.
const POSTGRES_OUTAGES: [&str; 7] = [
    "53300", // too_many_connections
    "57P01", // admin_shutdown
    "57P02", // crash_shutdown
    "57P03", // cannot_connect_now
    "40001", // serialization_failure
    "40P01", // deadlock_detected
    "55P03", // lock_not_available
];
const POSTGRES_CONNECTION_CLASS: &str = "08";

/// Returns `true` if the database does not respond or is busy. The statement changed nothing,
/// unless the connection was lost while a commit was in progress.
pub(super) fn is_outage(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Io(_) => true,
        sqlx::Error::Database(error) => {
            if let Some(error) = error.try_downcast_ref::<SqliteError>() {
                let code = sqlx::error::DatabaseError::code(error);
                let code = code.and_then(|code| code.parse::<i32>().ok());
                return code.is_some_and(|code| matches!(code & 0xff, SQLITE_BUSY | SQLITE_LOCKED));
            }
            error
                .try_downcast_ref::<PgDatabaseError>()
                .is_some_and(|error| {
                    let code = error.code();
                    POSTGRES_OUTAGES.contains(&code) || code.starts_with(POSTGRES_CONNECTION_CLASS)
                })
        }
        _ => false,
    }
}

/// Returns `true` if the connection was lost after the statement may have been sent. In that case,
/// the outcome of the statement is unknown.
fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => !matches!(
            error.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::NotFound
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
        ),
        sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(error) => error
            .try_downcast_ref::<PgDatabaseError>()
            .is_some_and(|error| error.code() == "57P02"),
        _ => false,
    }
}

/// Converts the result of a statement that commits a change.
pub(crate) trait Changed<T> {
    /// Returns [`Error::Unknown`] if the connection was lost, because the database may have
    /// committed the change.
    fn changed(self) -> Result<T, Error>;
}

impl<T> Changed<T> for Result<T, sqlx::Error> {
    fn changed(self) -> Result<T, Error> {
        self.map_err(|error| match Error::from(error) {
            Error::Database(error) if is_lost(&error) => Error::Unknown(error),
            other => other,
        })
    }
}

#[cfg(test)]
mod tests;
