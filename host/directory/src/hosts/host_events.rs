//! Events that one host or a command of the operator causes and that all hosts handle. Triggers
//! write the events in the transactions of the changes, so a change without an event is not
//! possible.
//!
//! A host reads new events when PostgreSQL notifies the host, and at an interval. So a lost
//! notification delays an event, but does not lose it. SQLite has no notifications. [`HostEvents`]
//! is one reader, which starts with the events after its creation.

use std::collections::HashSet;
use std::time::Duration;

use latchmail_core::clock::Timestamp;
use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::time::{sleep, timeout};

use super::Hosts;
use crate::db::{Db, Error};

/// Maximum time between two readings of events on PostgreSQL, which notifies the hosts of most
/// events.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Time between two readings of events on SQLite, which has no notifications.
const SQLITE_INTERVAL: Duration = Duration::from_millis(500);

/// The delay before the next attempt to listen, if the connection for notifications failed.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// The time for which events are kept. A host that reads no events for this time misses events, and
/// must read the current state instead.
const KEEP: Duration = Duration::from_hours(1);

const CHANNEL: &str = "latchmail_host_events";

/// Reads the events of transactions that had not ended at the previous reading. The values of
/// `sequence` do not follow the order of commits, so a lower value can become visible after a
/// higher value. All transactions with ids below `horizon` have ended, so the query sees all their
/// events.
const READ_POSTGRES: &str = "SELECT h.horizon, e.sequence, e.kind, e.subject \
    FROM (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon) h \
    LEFT JOIN host_events e ON e.transaction >= $1::text::xid8 ORDER BY e.sequence";
/// SQLite has one writer at a time, so the values of `sequence` follow the order of commits.
const READ_SQLITE: &str = "SELECT (SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'host_events') + 1, e.sequence, e.kind, e.subject \
    FROM (SELECT 1) LEFT JOIN host_events e ON e.sequence >= $1 ORDER BY e.sequence";
const SWEEP: &str = "DELETE FROM host_events WHERE at <= $1";

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The app password with this id was deleted. The connections to the mail server that use the
    /// app password must be closed.
    CredentialEnded(String),
    /// The installed modules have changed.
    ModulesChanged,
    /// The states of the service's keys have changed.
    KeysChanged,
    /// The change log of the mailbox of this account has new entries, or the mail server has
    /// reported a change. Sent only while a host watches the mailbox.
    MailboxChanged(String),
    /// The grants of a member of the mailbox of this account have changed.
    GrantsChanged(String),
}

impl HostEvent {
    /// Returns `None` if the kind is unknown. A later version of the program can write other kinds.
    fn parse(kind: &str, subject: String) -> Option<Self> {
        match kind {
            "credential_ended" => Some(Self::CredentialEnded(subject)),
            "modules_changed" => Some(Self::ModulesChanged),
            "keys_changed" => Some(Self::KeysChanged),
            "mailbox_changed" => Some(Self::MailboxChanged(subject)),
            "grants_changed" => Some(Self::GrantsChanged(subject)),
            _ => None,
        }
    }
}

/// A row of [`READ_POSTGRES`] or [`READ_SQLITE`].
type Row = (i64, Option<i64>, Option<String>, Option<String>);

/// Reads events, each event once.
#[derive(Debug)]
pub struct HostEvents {
    db: Db,
    /// The id of the transaction (PostgreSQL) or the `sequence` of the event (SQLite) at which the
    /// next reading starts.
    horizon: i64,
    /// The `sequence` values of the events at or after the horizon that were already returned.
    returned: HashSet<i64>,
    listener: Option<PgListener>,
}

impl Hosts {
    /// Returns a reader of the events from now on.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn events(&self) -> Result<HostEvents, Error> {
        let mut events = HostEvents {
            db: self.db.clone(),
            horizon: i64::MAX,
            returned: HashSet::new(),
            listener: None,
        };
        if let Db::Postgres(pool) = &self.db {
            events.listener = Some(listen(pool).await?);
        }
        // The first reading finds the horizon. The second reading marks the existing events at or
        // after the horizon as returned, so that `HostEvents::next` skips these events.
        events.read().await?;
        events.read().await?;
        Ok(events)
    }

    /// Deletes the events that are older than [`KEEP`].
    pub(crate) async fn sweep_host_events(&self, now: Timestamp) -> Result<(), Error> {
        let before = now.minus(KEEP).millis();
        self.db.execute(SWEEP, [before]).await?;
        Ok(())
    }
}

impl HostEvents {
    /// Waits for a notification, at most for a few seconds. Then returns the new events. The list
    /// is empty if there are no new events.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The next call returns the events.
    pub async fn next(&mut self) -> Result<Vec<HostEvent>, Error> {
        self.wait().await;
        self.read().await
    }

    /// Waits for a notification, at most for [`POLL_INTERVAL`].
    async fn wait(&mut self) {
        let Some(listener) = &mut self.listener else {
            match &self.db {
                Db::Sqlite(..) => sleep(SQLITE_INTERVAL).await,
                Db::Postgres(pool) => {
                    sleep(POLL_INTERVAL).await;
                    self.listener = listen(pool).await.ok();
                }
            }
            return;
        };
        match timeout(POLL_INTERVAL, listener.try_recv()).await {
            Err(_) | Ok(Ok(Some(_))) => {
                // One reading handles all notifications that have arrived.
                while listener.next_buffered().is_some() {}
            }
            Ok(Ok(None)) => tracing::debug!("lost the connection for notifications"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot receive notifications of other hosts; reading events at an interval");
                self.listener = None;
                sleep(RECONNECT_DELAY).await;
            }
        }
    }

    async fn read(&mut self) -> Result<Vec<HostEvent>, Error> {
        let rows: Vec<Row> = match &self.db {
            Db::Sqlite(pool, _) => {
                let query = sqlx::query_as(READ_SQLITE).bind(self.horizon);
                query.fetch_all(pool).await?
            }
            Db::Postgres(pool) => {
                let query = sqlx::query_as(READ_POSTGRES).bind(self.horizon.to_string());
                query.fetch_all(pool).await?
            }
        };
        let mut events = Vec::new();
        let mut current = HashSet::new();
        for (horizon, sequence, kind, subject) in rows {
            self.horizon = horizon;
            let (Some(sequence), Some(kind), Some(subject)) = (sequence, kind, subject) else {
                continue;
            };
            current.insert(sequence);
            if !self.returned.contains(&sequence) {
                events.extend(HostEvent::parse(&kind, subject));
            }
        }
        self.returned = current;
        Ok(events)
    }
}

/// Opens a connection that receives notifications. The connection is not a connection of the pool,
/// because it stays open.
async fn listen(pool: &PgPool) -> Result<PgListener, Error> {
    let options = pool.connect_options().as_ref().clone();
    let own = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(options)
        .await?;
    let mut listener = PgListener::connect_with(&own).await?;
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fresh, both};

    async fn each_reader_returns_each_event_once(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("a", "ada@example.org", &["s", "t"]).await;
        fresh
            .execute("DELETE FROM app_passwords WHERE id = 's-password'")
            .await;
        let mut readers = [
            directory.hosts.events().await.unwrap(),
            directory.hosts.events().await.unwrap(),
        ];
        fresh
            .execute("DELETE FROM app_passwords WHERE id = 't-password'")
            .await;
        for reader in &mut readers {
            let event = HostEvent::CredentialEnded("t-password".into());
            assert_eq!(reader.next().await.unwrap(), [event]);
            assert_eq!(reader.read().await.unwrap(), []);
        }
    }

    async fn a_change_that_is_rolled_back_is_no_event(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("a", "ada@example.org", &["s"]).await;
        let mut reader = directory.hosts.events().await.unwrap();
        let mut tx = directory.db().begin().await.unwrap();
        crate::db::on_tx!(&mut tx, db => sqlx::query("DELETE FROM app_passwords").execute(db).await.map(drop)).unwrap();
        drop(tx);
        assert_eq!(reader.read().await.unwrap(), []);
    }

    async fn old_events_are_deleted_and_new_ones_are_still_found(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("a", "ada@example.org", &["s", "t"]).await;
        let mut reader = directory.hosts.events().await.unwrap();
        fresh
            .execute("DELETE FROM app_passwords WHERE id = 's-password'")
            .await;
        assert_eq!(reader.read().await.unwrap().len(), 1);
        let now = latchmail_core::clock::Clock::system().now();
        directory.hosts.sweep_host_events(now).await.unwrap();
        assert_eq!(fresh.number("SELECT COUNT(*) FROM host_events").await, 1);
        let later = now.plus(KEEP).plus(Duration::from_secs(2));
        directory.hosts.sweep_host_events(later).await.unwrap();
        assert_eq!(fresh.number("SELECT COUNT(*) FROM host_events").await, 0);
        fresh
            .execute("DELETE FROM app_passwords WHERE id = 't-password'")
            .await;
        assert_eq!(reader.read().await.unwrap().len(), 1);
    }

    both!(
        each_reader_returns_each_event_once,
        a_change_that_is_rolled_back_is_no_event,
        old_events_are_deleted_and_new_ones_are_still_found,
    );

    /// An event with a lower number can be committed after an event with a higher number.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_event_of_a_slow_transaction_is_not_lost() {
        crate::testing::on_postgres(async |fresh: Fresh| {
            let directory = &fresh.directory;
            directory.with("a", "ada@example.org", &["s", "t"]).await;
            let mut reader = directory.hosts.events().await.unwrap();
            let mut slow = directory.db().begin().await.unwrap();
            crate::db::on_tx!(&mut slow, db => sqlx::query("DELETE FROM app_passwords WHERE id = 's-password'")
                .execute(db).await.map(drop))
            .unwrap();
            fresh
                .execute("DELETE FROM app_passwords WHERE id = 't-password'")
                .await;
            let ended = |id: &str| [HostEvent::CredentialEnded(id.into())];
            assert_eq!(reader.read().await.unwrap(), ended("t-password"));
            assert_eq!(reader.read().await.unwrap(), []);
            slow.commit().await.unwrap();
            assert_eq!(reader.read().await.unwrap(), ended("s-password"));
            assert_eq!(reader.read().await.unwrap(), []);
        })
        .await
        .unwrap();
    }
}
