//! The processes of the service that use this database. Each process is a host. A host writes its
//! row every few seconds, so that the other hosts and the commands of the operator know which hosts
//! run. Times are by the database's clock, because the clocks of hosts can differ.
//!
//! If the database or all hosts were paused, no host has written its row in time. After the pause,
//! the hosts must not consider each other as stopped. Therefore a host that has not written its own
//! row in time compares the times in the rows of other hosts with the time in its own row, and not
//! with the current time. When the host writes its row again, the row records the start and the end
//! of the pause. Until [`RESUME_TIME`] after the end of the pause, the hosts that ran before the
//! pause count as running.

pub mod host_events;
mod watches;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::db::{Db, Error, Tx};

/// The interval at which a host must write its row.
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(5);

/// A host that has not written its row for this time counts as stopped.
pub const HOST_TIMEOUT: Duration = Duration::from_secs(15);

/// The time within which all hosts write their rows after a pause.
const RESUME_TIME: Duration = Duration::from_secs(10);

/// The time for which rows of stopped hosts are kept.
const KEEP: Duration = Duration::from_hours(24);

/// Defines queries that contain the time of the database (`NOW`, in milliseconds since the epoch),
/// for SQLite and for PostgreSQL.
macro_rules! for_both {
    ($($name:ident: $before:literal NOW $after:literal),+ $(,)?) => {
        $(const $name: [&str; 2] = [
            concat!($before, "CAST(strftime('%s', 'now') AS INTEGER) * 1000", $after),
            concat!($before, "(extract(epoch FROM clock_timestamp()) * 1000)::bigint", $after),
        ];)+
    };
}

pub(super) use for_both;

for_both! {
    ANNOUNCE: "INSERT INTO hosts (id, name, version, base_url, key_id, key_ids, problem, started_at, seen_at) \
        SELECT $1, $2, $3, $4, $5, $6, $7, n.now, n.now FROM (SELECT " NOW " AS now) n WHERE TRUE \
        ON CONFLICT (id) DO UPDATE SET key_id = excluded.key_id, key_ids = excluded.key_ids, problem = excluded.problem, seen_at = excluded.seen_at, \
            paused_from = CASE WHEN hosts.seen_at <= excluded.seen_at + $8 THEN hosts.seen_at ELSE hosts.paused_from END, \
            resumed_at = CASE WHEN hosts.seen_at <= excluded.seen_at + $8 THEN excluded.seen_at ELSE hosts.resumed_at END",
    STOPPED_BEFORE: "WITH n AS (SELECT " NOW " AS now) SELECT MIN(c.since) FROM (SELECT n.now + $1 AS since FROM n \
        UNION ALL SELECT h.seen_at + $1 FROM hosts h, n WHERE h.id = $2 AND h.seen_at <= n.now + $1 \
        UNION ALL SELECT h.paused_from + $1 FROM hosts h, n WHERE h.resumed_at > n.now + $3) c",
    SEEN: "SELECT id FROM hosts WHERE seen_at > $1 + " NOW " ORDER BY id",
    SWEEP: "DELETE FROM hosts WHERE seen_at <= $1 + " NOW "",
}
const LIVE: &str = "SELECT id, name, version, base_url, key_id, key_ids, problem, started_at, seen_at FROM hosts WHERE seen_at > $1 ORDER BY name, id";
const IS_ALIVE: &str = "SELECT id FROM hosts WHERE id = $2 AND seen_at > $1";
const REMOVE: &str = "DELETE FROM hosts WHERE id = $1";

/// The values that a host announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The id of the process, which is new at each start.
    pub id: String,
    /// The name of the machine.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The configured `base_url`.
    pub base_url: String,
    /// The public id of the host's current key. See [`crate::keys::service_keys`].
    pub key_id: String,
    /// The public ids of all keys in the host's key file.
    pub key_ids: Vec<String>,
    /// The reason why the host is not ready.
    pub problem: Option<String>,
}

/// A host that has written its row within [`HOST_TIMEOUT`].
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Host {
    /// The id of the process.
    pub id: String,
    /// The name of the machine.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The configured `base_url`.
    pub base_url: String,
    /// The public id of the host's current key. See [`crate::keys::service_keys`].
    pub key_id: String,
    key_ids: String,
    /// The reason why the host is not ready.
    pub problem: Option<String>,
    /// The start of the host, in milliseconds since the epoch.
    pub started_at: i64,
    /// The time at which the host last wrote its row, in milliseconds since the epoch.
    pub seen_at: i64,
}

impl Host {
    /// Returns the public ids of all keys in the host's key file.
    pub fn key_ids(&self) -> impl Iterator<Item = &str> {
        self.key_ids.split_whitespace()
    }
}

/// The hosts that use this database, and the events that hosts exchange.
#[derive(Clone, Debug)]
pub struct Hosts {
    pub(crate) db: Db,
    /// The id of the host that uses this directory. Not set in commands of the operator.
    pub(crate) own: Arc<OnceLock<String>>,
}

impl Hosts {
    /// Writes the row of a host, with the current time. The host must call this function every
    /// [`ANNOUNCE_INTERVAL`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn announce(&self, host: &Announcement) -> Result<(), Error> {
        let query = self.db.query(ANNOUNCE);
        let row = (
            &host.id,
            &host.name,
            &host.version,
            &host.base_url,
            &host.key_id,
            host.key_ids.join(" "),
            &host.problem,
            before(HOST_TIMEOUT),
        );
        self.db.execute(query, row).await?;
        Ok(())
    }

    /// Returns the hosts that have written their rows within [`HOST_TIMEOUT`], sorted by name.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self) -> Result<Vec<Host>, Error> {
        let stopped_before = self.stopped_before().await?;
        self.db.all(LIVE, [stopped_before]).await
    }

    /// Returns `true` if the host with this id has written its row within [`HOST_TIMEOUT`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn is_alive(&self, id: &str) -> Result<bool, Error> {
        let stopped_before = self.stopped_before().await?;
        let found: Option<String> = self
            .db
            .optional_value(IS_ALIVE, (stopped_before, id))
            .await?;
        Ok(found.is_some())
    }

    /// Returns the ids of the hosts that have written their rows within `age`, for work that the
    /// hosts share. Always contains this host. Does not consider pauses of the database, so several
    /// hosts can do the same work for a short time.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn seen_within(&self, age: Duration) -> Result<Vec<String>, Error> {
        let own = self.own.get().cloned();
        let mut hosts: Vec<String> = match &self.db {
            // Only one host uses an SQLite database. A stopped process can have a row.
            Db::Sqlite(..) => Vec::new(),
            Db::Postgres(_) => {
                let query = self.db.query(SEEN);
                self.db.values(query, [before(age)]).await?
            }
        };
        if let Some(own) = own.filter(|own| !hosts.contains(own)) {
            hosts.push(own);
        }
        Ok(hosts)
    }

    /// Returns the id of the host that uses this directory.
    #[must_use]
    pub fn own_host(&self) -> Option<&str> {
        self.own.get().map(String::as_str)
    }

    /// Sets the id of the host that uses this directory.
    pub fn set_own_host(&self, id: &str) {
        // A second call has no effect, because the id of a process does not change.
        let _ = self.own.set(id.to_owned());
    }

    /// Returns a time in milliseconds since the epoch. A host counts as stopped if the host last
    /// wrote its row at or before this time.
    async fn stopped_before(&self) -> Result<i64, Error> {
        let query = self.db.query(STOPPED_BEFORE);
        self.db.value(query, self.timeouts()).await
    }

    /// Returns the same time as [`Hosts::stopped_before`], in a transaction.
    pub(super) async fn stopped_before_in(&self, tx: &mut Tx) -> Result<i64, Error> {
        let query = self.db.query(STOPPED_BEFORE);
        tx.value(query, self.timeouts()).await
    }

    /// Returns the parameters of [`STOPPED_BEFORE`].
    fn timeouts(&self) -> (i64, Option<&str>, i64) {
        let own = self.own.get().map(String::as_str);
        (before(HOST_TIMEOUT), own, before(RESUME_TIME))
    }

    /// Deletes the row of a host. A host calls this function when the host stops.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn remove(&self, id: &str) -> Result<(), Error> {
        self.db.execute(REMOVE, [id]).await?;
        Ok(())
    }

    /// Deletes the rows of hosts that stopped long ago without deleting their rows.
    pub(super) async fn sweep_hosts(&self) -> Result<(), Error> {
        let query = self.db.query(SWEEP);
        self.db.execute(query, [before(KEEP)]).await?;
        Ok(())
    }
}

/// Returns the negative number of milliseconds of a duration. The queries add this number to the
/// current time.
pub(super) fn before(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).map_or(i64::MIN, |millis| -millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fresh, both};

    fn announcement(id: &str) -> Announcement {
        Announcement {
            id: id.into(),
            name: "one".into(),
            version: "1.0.0".into(),
            base_url: "https://example.org".into(),
            key_id: "new".into(),
            key_ids: vec!["new".into(), "old".into()],
            problem: None,
        }
    }

    async fn a_host_is_alive_until_it_is_removed_or_has_not_been_seen_for_15_seconds(fresh: Fresh) {
        let directory = &fresh.directory;
        for id in ["a", "b"] {
            directory.hosts.announce(&announcement(id)).await.unwrap();
        }
        let again = Announcement {
            problem: Some("no module".into()),
            ..announcement("a")
        };
        directory.hosts.announce(&again).await.unwrap();
        let hosts = directory.hosts.list().await.unwrap();
        let [a, b] = hosts.as_slice() else {
            panic!("{hosts:?}");
        };
        assert_eq!((&*a.id, a.problem.as_deref()), ("a", Some("no module")));
        assert_eq!(b.key_ids().collect::<Vec<_>>(), ["new", "old"]);
        assert!(a.started_at <= a.seen_at);
        assert!(directory.hosts.is_alive("a").await.unwrap());
        assert!(!directory.hosts.is_alive("c").await.unwrap());
        directory.hosts.remove("a").await.unwrap();
        assert!(!directory.hosts.is_alive("a").await.unwrap());
        fresh
            .execute("UPDATE hosts SET seen_at = seen_at - 16000")
            .await;
        assert!(!directory.hosts.is_alive("b").await.unwrap());
        assert_eq!(directory.hosts.list().await.unwrap(), []);
        directory.hosts.sweep_hosts().await.unwrap();
        assert_eq!(fresh.number("SELECT COUNT(*) FROM hosts").await, 1);
        fresh
            .execute("UPDATE hosts SET seen_at = seen_at - 86400000")
            .await;
        directory.hosts.sweep_hosts().await.unwrap();
        assert_eq!(fresh.number("SELECT COUNT(*) FROM hosts").await, 0);
    }

    async fn hosts_are_not_stopped_after_a_pause_of_all(fresh: Fresh) {
        let directory = &fresh.directory;
        for id in ["own", "other", "stopped"] {
            directory.hosts.announce(&announcement(id)).await.unwrap();
        }
        directory.hosts.set_own_host("own");
        let alive = async || {
            let hosts = directory.hosts.list().await.unwrap();
            hosts.into_iter().map(|host| host.id).collect::<Vec<_>>()
        };
        fresh
            .execute("UPDATE hosts SET seen_at = seen_at - 16000 WHERE id = 'stopped'")
            .await;
        assert_eq!(alive().await, ["other", "own"]);
        // Before and after this host writes its row, it does not consider the other host as
        // stopped.
        fresh
            .execute("UPDATE hosts SET seen_at = seen_at - 60000")
            .await;
        assert_eq!(alive().await, ["other", "own"]);
        assert!(directory.hosts.is_alive("other").await.unwrap());
        directory
            .hosts
            .announce(&announcement("own"))
            .await
            .unwrap();
        assert_eq!(alive().await, ["other", "own"]);
        directory
            .hosts
            .announce(&announcement("own"))
            .await
            .unwrap();
        assert_eq!(alive().await, ["other", "own"]);
        fresh
            .execute("UPDATE hosts SET resumed_at = resumed_at - 10000")
            .await;
        assert_eq!(alive().await, ["own"]);
    }

    both!(
        hosts_are_not_stopped_after_a_pause_of_all,
        a_host_is_alive_until_it_is_removed_or_has_not_been_seen_for_15_seconds
    );
}
