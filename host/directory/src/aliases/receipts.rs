//! The number of messages that each alias received, and the time of the last message. The milter
//! records both in the table that mail servers can write.
//!
//! On SQLite, mail daemons can write any data to the file of this table. Therefore results contain
//! only the requested aliases, and only plausible values. If the file cannot be read, the aliases
//! have no receipts and a warning is logged. The request does not fail.

use std::time::Duration;

use latchmail_core::clock::{Clock, Timestamp};
use sqlx::{Connection as _, SqliteConnection};

use super::{Alias, Aliases};
use crate::db::{Changed as _, Error, LastLogins, LastLoginsFile};

/// Time limits for reading rows from the SQLite file and for deleting rows. The limits are
/// necessary, because other programs write to the file.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time by which the mail server's clock can be ahead of the service's clock.
const MAX_CLOCK_SKEW: Duration = Duration::from_mins(1);

const ALL_ALIASES: &str =
    "SELECT json_group_array(address) FROM addresses WHERE kind = 'alias' AND live";

/// Returns one row for each address in $1, independent of the contents of the table.
const IN_FILE: &str = "SELECT c.value, \
        (SELECT r.received FROM mailserver_alias_receipts r \
            WHERE r.address = c.value AND typeof(r.received) = 'integer' LIMIT 1), \
        (SELECT r.last_received_at FROM mailserver_alias_receipts r \
            WHERE r.address = c.value AND typeof(r.last_received_at) = 'integer' LIMIT 1) \
    FROM json_each($1) c";
const IN_TABLE: &str = "SELECT address, received, last_received_at FROM mailserver_alias_receipts WHERE address = ANY($1)";
const DELETE_IN_FILE: &str = "DELETE FROM mailserver_alias_receipts WHERE address = $1";
const DELETE_IN_TABLE: &str = "DELETE FROM mailserver_alias_receipts WHERE address = $1";
const SWEEP_FILE: &str = "DELETE FROM mailserver_alias_receipts \
    WHERE address NOT IN (SELECT value FROM json_each($1))";
const SWEEP_TABLE: &str = "DELETE FROM mailserver_alias_receipts r WHERE NOT EXISTS ( \
    SELECT 1 FROM addresses a WHERE a.address = r.address AND a.kind = 'alias' AND a.live)";

/// A row of [`IN_FILE`] or [`IN_TABLE`].
type Row = (String, Option<i64>, Option<i64>);

impl Aliases {
    /// Adds the recorded receipts to `aliases`.
    pub(super) async fn add_receipts(&self, aliases: &mut [Alias]) -> Result<(), Error> {
        if aliases.is_empty() {
            return Ok(());
        }
        let addresses: Vec<String> = aliases.iter().map(|one| one.address.clone()).collect();
        let rows: Vec<Row> = match &self.receipts {
            LastLogins::File(file) => in_file(file, &addresses).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "failed to read how much mail aliases received");
                Vec::new()
            }),
            LastLogins::Table(pool) => {
                let rows = sqlx::query_as(IN_TABLE).bind(&addresses);
                rows.fetch_all(pool).await?
            }
        };
        let now = Clock::system().now();
        for (address, received, last) in rows {
            let found = aliases.binary_search_by(|alias| alias.address.as_str().cmp(&address));
            let Some(alias) = found.ok().and_then(|index| aliases.get_mut(index)) else {
                continue;
            };
            let Some(last) = last.and_then(|seconds| instant(seconds, now)) else {
                continue;
            };
            alias.received = received
                .and_then(|count| count.try_into().ok())
                .unwrap_or(0);
            alias.last_received_at = Some(last);
        }
        Ok(())
    }

    /// Deletes the receipts of a deleted alias. Logs a failure, because the alias is already
    /// deleted. The sweep deletes the receipts that remain.
    pub(super) async fn forget_receipts(&self, address: &str) {
        let forgotten = match &self.receipts {
            LastLogins::File(file) => delete_in_file(file, DELETE_IN_FILE, address).await,
            LastLogins::Table(pool) => {
                let delete = sqlx::query(DELETE_IN_TABLE).bind(address);
                delete.execute(pool).await.changed().map(drop)
            }
        };
        if let Err(error) = forgotten {
            tracing::warn!(%error, "failed to delete the receipts of a deleted alias");
        }
    }

    /// Deletes the receipts of addresses that are not aliases.
    pub(crate) async fn sweep_receipts(&self) -> Result<(), Error> {
        match &self.receipts {
            LastLogins::File(file) => {
                let aliases: String = self.db.value(ALL_ALIASES, ()).await?;
                if let Err(error) = delete_in_file(file, SWEEP_FILE, &aliases).await {
                    tracing::warn!(%error, "failed to delete the receipts of former aliases");
                }
            }
            LastLogins::Table(pool) => {
                sqlx::query(SWEEP_TABLE).execute(pool).await.changed()?;
            }
        }
        Ok(())
    }
}

async fn in_file(file: &LastLoginsFile, addresses: &[String]) -> Result<Vec<Row>, Error> {
    let mut connection: SqliteConnection = file.open_to_read(READ_TIMEOUT).await?;
    let rows = sqlx::query_as(IN_FILE)
        .bind(serde_json::Value::from(addresses).to_string())
        .fetch_all(&mut connection)
        .await?;
    connection.close().await?;
    Ok(rows)
}

async fn delete_in_file(
    file: &LastLoginsFile,
    query: &'static str,
    parameter: &str,
) -> Result<(), Error> {
    let mut connection: SqliteConnection = file.open_writable(DELETE_TIMEOUT).await?;
    sqlx::query(query)
        .bind(parameter)
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
