//! When mail clients logged in last, as the mail server tells it.
//!
//! The mail server writes what it likes, on SQLite into a file that it may even replace: an answer holds only the account's own
//! app passwords of mail clients, and only instants that can be true. Where nothing can be read nothing is known, which a warning
//! says, and no request fails for it.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::{Connection as _, PgPool, SqliteConnection};

use super::db::{LastLoginsFile, on};
use super::{Directory, Error};
use crate::clock::{Clock, Timestamp};

/// How far the mail server's clock may be ahead of this one's.
const AHEAD: Duration = Duration::from_mins(1);

/// How long reading and forgetting may take on a file of somebody else's.
const READING: Duration = Duration::from_millis(500);
const FORGETTING: Duration = Duration::from_secs(5);

/// Of one account: more are not read.
const MOST: i64 = 10_000;

/// How long after its last log-in an app password that is gone may still be spoken of. A new one is never taken for it.
const KEPT: Duration = Duration::from_hours(24);

const CLIENTS: &str =
    "SELECT id FROM app_passwords WHERE account_id = $1 AND kind = 'app_password'";
const ALL_CLIENTS: &str =
    "SELECT json_group_array(id) FROM app_passwords WHERE kind = 'app_password'";

/// The ids are the service's own texts, and at most one row is told of each, whatever the table holds.
const IN_FILE: &str = "SELECT c.value, (SELECT l.last_login FROM mailserver_last_logins l \
        WHERE l.app_password_id = c.value AND typeof(l.last_login) = 'integer' LIMIT 1) \
    FROM json_each($1) c";
const FORGET_IN_FILE: &str = "DELETE FROM mailserver_last_logins \
    WHERE app_password_id NOT IN (SELECT value FROM json_each($1)) \
        AND (typeof(last_login) <> 'integer' OR last_login NOT BETWEEN $2 AND $3)";

const IN_TABLE: &str = "SELECT app_password_id, last_login FROM mailserver_last_logins \
    WHERE app_password_id = ANY($1) LIMIT $2";
/// What the mail server holds locked is left for the next time.
const FORGET_IN_TABLE: &str = "DELETE FROM mailserver_last_logins WHERE app_password_id IN ( \
    SELECT l.app_password_id FROM mailserver_last_logins l WHERE l.last_login NOT BETWEEN $1 AND $2 AND NOT EXISTS ( \
        SELECT 1 FROM app_passwords p WHERE p.id = l.app_password_id AND p.kind = 'app_password') \
    FOR UPDATE SKIP LOCKED)";

/// Where the mail server tells of log-ins.
#[derive(Clone, Debug)]
pub(super) enum LastLogins {
    /// In a file of its own, beside SQLite's others.
    File(LastLoginsFile),
    /// In a table of the database.
    Table(PgPool),
}

impl Directory {
    /// When each of the account's app passwords for mail clients was last used to log in, by its id. One that never was, or that
    /// nothing is known of, is not in it.
    ///
    /// # Errors
    /// [`Error`] where the database fails; not where only the mail server's part cannot be read.
    pub async fn last_logins(&self, account_id: &str) -> Result<HashMap<String, Timestamp>, Error> {
        let clients: Vec<String> = on!(&self.db, pool => sqlx::query_scalar(CLIENTS)
            .bind(account_id)
            .fetch_all(pool).await)?;
        if clients.is_empty() {
            return Ok(HashMap::new());
        }
        let told = match &self.last_logins {
            LastLogins::File(file) => in_file(file, &clients).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "when mail clients logged in last cannot be read");
                Vec::new()
            }),
            LastLogins::Table(pool) => {
                let told = sqlx::query_as(IN_TABLE).bind(&clients).bind(MOST);
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

    /// Forgets the last log-ins of app passwords that are gone, and what was never an instant.
    pub(super) async fn sweep_last_logins(&self) -> Result<(), Error> {
        let now = Clock::system().now();
        let kept = (now.minus(KEPT).seconds(), now.plus(AHEAD).seconds());
        match &self.last_logins {
            LastLogins::File(file) => {
                let clients: String =
                    on!(&self.db, pool => sqlx::query_scalar(ALL_CLIENTS).fetch_one(pool).await)?;
                if let Err(error) = forget_in_file(file, &clients, kept).await {
                    tracing::warn!(%error, "old last log-ins of mail clients cannot be forgotten");
                }
            }
            LastLogins::Table(pool) => {
                let forget = sqlx::query(FORGET_IN_TABLE).bind(kept.0).bind(kept.1);
                forget.execute(pool).await?;
            }
        }
        Ok(())
    }
}

async fn in_file(file: &LastLoginsFile, clients: &[String]) -> Result<Vec<(String, i64)>, Error> {
    let mut connection: SqliteConnection = file.open_to_read(READING).await?;
    let told: Vec<(String, Option<i64>)> = sqlx::query_as(IN_FILE)
        .bind(serde_json::Value::from(clients).to_string())
        .fetch_all(&mut connection)
        .await?;
    connection.close().await?;
    let known = told.into_iter().filter_map(|(id, at)| Some((id, at?)));
    Ok(known.collect())
}

async fn forget_in_file(
    file: &LastLoginsFile,
    clients: &str,
    (oldest, newest): (i64, i64),
) -> Result<(), Error> {
    let mut connection: SqliteConnection = file.open_to_forget(FORGETTING).await?;
    sqlx::query(FORGET_IN_FILE)
        .bind(clients)
        .bind(oldest)
        .bind(newest)
        .execute(&mut connection)
        .await?;
    sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// What so many seconds since the epoch are, unless it cannot be true.
fn instant(seconds: i64, now: Timestamp) -> Option<Timestamp> {
    let at = Timestamp::from_millis(seconds.checked_mul(1000)?);
    let possible = seconds > 0 && at <= now.plus(AHEAD);
    possible.then(|| at.min(now))
}

#[cfg(test)]
mod tests;
