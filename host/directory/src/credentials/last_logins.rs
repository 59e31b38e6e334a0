//! Reads the last log-ins of mail clients. The mail server records these log-ins.
//!
//! The mail server can write any data to the table. On SQLite, the mail server can even replace the
//! file of the table. Therefore, results contain only the account's own app passwords for mail
//! clients, and only plausible times.
//!
//! If the file cannot be read, the result is empty and a warning is logged. The request does not
//! fail.

use std::collections::HashMap;
use std::time::Duration;

use latchmail_core::clock::{Clock, Timestamp};
use sqlx::{Connection as _, SqliteConnection};

use super::Credentials;
use crate::db::{Changed as _, Error, LastLogins, LastLoginsFile};

/// Maximum time by which the mail server's clock can be ahead of the service's clock.
const MAX_CLOCK_SKEW: Duration = Duration::from_mins(1);

/// Time limits for reading rows from the SQLite file and for deleting rows. The limits are
/// necessary, because other programs write to the file.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of rows that are read for one account.
const MAX_ROWS: i64 = 10_000;

/// Maximum number of app passwords in one query of a backup.
const MAX_CLIENTS: usize = 500;

/// The minimum age of a last log-in before the sweep deletes its row. The sweep deletes the rows of
/// app passwords that are not in the list that the sweep has read. A younger row can belong to an
/// app password that was created after the sweep read the list.
const RETENTION: Duration = Duration::from_hours(24);

const CLIENTS: &str =
    "SELECT id FROM app_passwords WHERE account_id = $1 AND kind = 'app_password'";
const ALL_CLIENTS: &str =
    "SELECT json_group_array(id) FROM app_passwords WHERE kind = 'app_password'";

/// Returns one row for each id in $1, independent of the contents of the table.
const IN_FILE: &str = "SELECT c.value, (SELECT l.last_login FROM mailserver_last_logins l \
        WHERE l.app_password_id = c.value AND typeof(l.last_login) = 'integer' LIMIT 1) \
    FROM json_each($1) c";
const DELETE_IN_FILE: &str = "DELETE FROM mailserver_last_logins \
    WHERE app_password_id NOT IN (SELECT value FROM json_each($1)) \
        AND (typeof(last_login) <> 'integer' OR last_login NOT BETWEEN $2 AND $3)";

const IN_TABLE: &str = "SELECT app_password_id, last_login FROM mailserver_last_logins \
    WHERE app_password_id = ANY($1) LIMIT $2";
/// Skips rows that the mail server has locked. The next sweep deletes the skipped rows.
const DELETE_IN_TABLE: &str = "DELETE FROM mailserver_last_logins WHERE app_password_id IN ( \
    SELECT l.app_password_id FROM mailserver_last_logins l WHERE l.last_login NOT BETWEEN $1 AND $2 AND NOT EXISTS ( \
        SELECT 1 FROM app_passwords p WHERE p.id = l.app_password_id AND p.kind = 'app_password') \
    FOR UPDATE SKIP LOCKED)";

impl Credentials {
    /// Returns the last log-ins of the account's app passwords for mail clients. The key is the id
    /// of the app password. Omits app passwords without a recorded log-in.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Does not return an error if the file of the mail
    /// server cannot be read.
    pub async fn last_logins(&self, account_id: &str) -> Result<HashMap<String, Timestamp>, Error> {
        let clients: Vec<String> = self.db.values(CLIENTS, [account_id]).await?;
        if clients.is_empty() {
            return Ok(HashMap::new());
        }
        let told = match &self.last_logins {
            LastLogins::File(file) => in_file(file, &clients).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "failed to read the last log-ins of mail clients");
                Vec::new()
            }),
            LastLogins::Table(pool) => {
                let told = sqlx::query_as(IN_TABLE).bind(&clients).bind(MAX_ROWS);
                told.fetch_all(pool).await?
            }
        };
        let now = Clock::system().now();
        let known = told.into_iter().filter_map(|(id, seconds)| {
            let at = instant(seconds, now)?;
            clients.contains(&id).then_some((id, at))
        });
        Ok(known.collect())
    }

    /// Deletes the last log-ins of app passwords that do not exist. Deletes such a row only if the
    /// log-in is older than [`RETENTION`] or if the time of the log-in is not plausible.
    pub(crate) async fn sweep_last_logins(&self) -> Result<(), Error> {
        let now = Clock::system().now();
        let kept = (
            now.minus(RETENTION).seconds(),
            now.plus(MAX_CLOCK_SKEW).seconds(),
        );
        match &self.last_logins {
            LastLogins::File(file) => {
                let clients: String = self.db.value(ALL_CLIENTS, ()).await?;
                if let Err(error) = delete_in_file(file, &clients, kept).await {
                    tracing::warn!(%error, "failed to delete old last log-ins of mail clients");
                }
            }
            LastLogins::Table(pool) => {
                let forget = sqlx::query(DELETE_IN_TABLE).bind(kept.0).bind(kept.1);
                forget.execute(pool).await.changed()?;
            }
        }
        Ok(())
    }
}

/// Returns the plausible last log-ins of these app passwords, in seconds since the Unix epoch.
pub(crate) async fn of_clients(
    file: &LastLoginsFile,
    clients: &[String],
) -> Result<Vec<(String, i64)>, Error> {
    let now = Clock::system().now();
    let mut known = Vec::new();
    for clients in clients.chunks(MAX_CLIENTS) {
        let told = in_file(file, clients).await?;
        known.extend(told.into_iter().filter_map(|(id, seconds)| {
            let at = instant(seconds, now)?;
            clients.contains(&id).then_some((id, at.seconds()))
        }));
    }
    Ok(known)
}

async fn in_file(file: &LastLoginsFile, clients: &[String]) -> Result<Vec<(String, i64)>, Error> {
    let mut connection: SqliteConnection = file.open_to_read(READ_TIMEOUT).await?;
    let told: Vec<(String, Option<i64>)> = sqlx::query_as(IN_FILE)
        .bind(serde_json::Value::from(clients).to_string())
        .fetch_all(&mut connection)
        .await?;
    connection.close().await?;
    let known = told.into_iter().filter_map(|(id, at)| Some((id, at?)));
    Ok(known.collect())
}

async fn delete_in_file(
    file: &LastLoginsFile,
    clients: &str,
    (oldest, newest): (i64, i64),
) -> Result<(), Error> {
    let mut connection: SqliteConnection = file.open_writable(DELETE_TIMEOUT).await?;
    sqlx::query(DELETE_IN_FILE)
        .bind(clients)
        .bind(oldest)
        .bind(newest)
        .execute(&mut connection)
        .await?;
    sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Converts seconds since the epoch to a time. A time after `now` becomes `now`. Returns `None` if
/// the value is not plausible.
fn instant(seconds: i64, now: Timestamp) -> Option<Timestamp> {
    let at = Timestamp::from_millis(seconds.checked_mul(1000)?);
    let possible = seconds > 0 && at <= now.plus(MAX_CLOCK_SKEW);
    possible.then(|| at.min(now))
}

#[cfg(test)]
mod tests;
