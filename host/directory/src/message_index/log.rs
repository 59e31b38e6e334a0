//! The change log of a mailbox. [`super::history`] reads the change log. The migrations describe
//! the versions, the states and the rules for new entries at the table `mailbox_changes`.
//!
//! A mailbox has a change log after its first sync. A message appears in the change log when its
//! flags are stored for the first time. If the message is removed before that, the change log
//! contains only the removal, because a listing may have returned the message number to a client.

use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::event_type::EventType;
use sqlx::QueryBuilder;

use super::MAX_PER_STATEMENT;
use crate::db::{Db, Error, Tx, on, on_tx};

/// Maximum number of stored changes of one mailbox.
pub(super) const MAX_CHANGES: u64 = 1_000_000;
/// Maximum number of changes that one transaction deletes. On SQLite, other writers wait for the
/// transaction.
const MAX_PRUNED: u64 = 10_000;

/// Returns no row if the mailbox has no change log.
pub(super) const LOG_STATE: &str =
    "SELECT version, pruned_version FROM mailboxes WHERE account_id = $1 AND version IS NOT NULL";
/// Reserves $2 versions. Returns the last reserved version. Returns no row if the mailbox has no
/// change log.
const ALLOCATE_VERSIONS: &str = "UPDATE mailboxes SET version = version + CAST($2 AS BIGINT) \
     WHERE account_id = $1 AND version IS NOT NULL RETURNING version";
const APPEND: &str =
    "INSERT INTO mailbox_changes (account_id, version, uid, folder_id, flags, path, changed_at) ";
/// Returns the highest version that [`prune`] deletes. [`prune`] also deletes all lower versions,
/// because a lower version has an earlier time, apart from small differences between the clocks of
/// hosts.
const LAST_OUTDATED: &str = "SELECT MAX(version) FROM ( \
     SELECT version, changed_at FROM mailbox_changes WHERE account_id = $1 AND version <= $2 UNION ALL \
     SELECT version, changed_at FROM mailbox_events WHERE account_id = $1 AND version <= $2 \
     ) c WHERE c.changed_at < $3 OR c.version <= $4";
const PRUNE: &str = "DELETE FROM mailbox_changes WHERE account_id = $1 AND version <= $2";
const PRUNE_EVENTS: &str = "DELETE FROM mailbox_events WHERE account_id = $1 AND version <= $2";
const APPEND_EVENT: &str = "INSERT INTO mailbox_events (account_id, version, type, data, key, changed_at) \
     VALUES ($1, $2, $3, $4, $5, $6)";
const HAS_KEY: &str = "SELECT 1 FROM mailbox_events WHERE account_id = $1 AND key = $2";
const EVENTS: &str = "SELECT version, type, data, changed_at FROM mailbox_events \
     WHERE account_id = $1 AND version > $2 AND version <= $3 ORDER BY version LIMIT $4";
const SET_PRUNED: &str = "UPDATE mailboxes SET pruned_version = $2 WHERE account_id = $1";

/// Returns a row if a folder of the mailbox was never synced. The change log cannot start before
/// all folders were synced.
const UNSYNCED: &str = "SELECT 1 FROM folders \
     WHERE account_id = $1 AND listed_path IS NOT NULL AND highest_modseq IS NULL LIMIT 1";
/// The first version is 0, or the highest `first_number` of the restores of backups.
const START_LOG: &str = "INSERT INTO mailboxes (account_id, next_uid, version, pruned_version) \
     SELECT $1, COALESCE(MAX(first_number), 1), COALESCE(MAX(first_number), 0), COALESCE(MAX(first_number), 0) FROM restores WHERE TRUE \
     ON CONFLICT (account_id) DO UPDATE SET version = excluded.version, pruned_version = excluded.version \
     WHERE mailboxes.version IS NULL";
/// Returns the version if the change log is consistent with the table `folders`. The change log is
/// not consistent if the path of a folder in the change log differs from its path in the last list
/// of folders, or if a deleted folder (`listed_path` is NULL) has messages. The next sync makes the
/// change log consistent again.
const VERSION: &str = "SELECT m.version FROM mailboxes m WHERE m.account_id = $1 AND NOT EXISTS ( \
     SELECT 1 FROM folders f WHERE f.account_id = m.account_id AND CASE WHEN f.listed_path IS NULL \
     THEN EXISTS (SELECT 1 FROM messages x WHERE x.folder_id = f.id) ELSE f.listed_path <> f.path END)";

/// The versions in the change log of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// The version of the last change.
    pub version: u64,
    /// The version of the last change that was deleted from the change log.
    pub pruned_version: u64,
}

impl LogState {
    /// Converts a row of [`LOG_STATE`].
    pub(super) fn of((version, pruned_version): (i64, i64)) -> Self {
        Self {
            version: read_version(version),
            pruned_version: read_version(pruned_version),
        }
    }
}

/// Converts a version for a query. A version that is too large for the database is later than all
/// stored versions.
pub(super) fn stored(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

/// Converts a stored version.
pub(super) fn read_version(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

/// An entry of the change log: a change, with the state before the change.
#[derive(Debug)]
pub(super) struct LoggedChange {
    uid: i64,
    folder: Option<String>,
    flags: Option<String>,
    path: Option<String>,
}

/// The logged columns of a message.
#[derive(sqlx_macros::FromRow)]
pub(super) struct LoggedMessage {
    uid: i64,
    folder_id: String,
    flags: Option<String>,
}

impl LoggedMessage {
    /// Returns a change with this state as the state before the change. If the message was never
    /// synced, its flags are empty in the change log.
    pub(super) fn change(self) -> LoggedChange {
        LoggedChange {
            uid: self.uid,
            folder: Some(self.folder_id),
            flags: Some(self.flags.unwrap_or_default()),
            path: None,
        }
    }
}

impl LoggedChange {
    /// Returns the change that adds a message to the change log.
    pub(super) fn created(uid: i64) -> Self {
        Self {
            uid,
            folder: None,
            flags: None,
            path: None,
        }
    }

    /// Returns the change of a message that was in this folder and had these flags. Returns `None`
    /// if `flags` is `None`, because a message without stored flags is not in the change log.
    pub(super) fn of_message(uid: i64, folder: &str, flags: Option<String>) -> Option<Self> {
        Some(Self {
            uid,
            folder: Some(folder.to_owned()),
            flags: Some(flags?),
            path: None,
        })
    }

    /// Returns the change of a folder that had this path before the change. `path` is `None` if the
    /// folder did not exist.
    pub(super) fn of_folder(id: &str, path: Option<&str>) -> Self {
        Self {
            uid: 0,
            folder: Some(id.to_owned()),
            flags: None,
            path: path.map(ToOwned::to_owned),
        }
    }
}

/// Adds changes to the change log of a mailbox. Does nothing if the mailbox has no change log. The
/// transaction must hold the lock of the account.
pub(super) async fn append(
    tx: &mut Tx,
    account: &str,
    changes: &[LoggedChange],
) -> Result<(), Error> {
    let count = i64::try_from(changes.len()).unwrap_or(i64::MAX);
    if count == 0 {
        return Ok(());
    }
    let last: Option<i64> = on_tx!(tx, tx => sqlx::query_scalar(ALLOCATE_VERSIONS)
        .bind(account)
        .bind(count)
        .fetch_optional(tx)
        .await)?;
    let Some(last) = last else {
        return Ok(());
    };
    let now = Clock::default().now().millis();
    let changes: Vec<_> = (last - count + 1..).zip(changes).collect();
    for changes in changes.chunks(MAX_PER_STATEMENT) {
        on_tx!(tx, tx => {
            let mut insert = QueryBuilder::new(APPEND);
            insert.push_values(changes, |mut row, (version, change)| {
                row.push_bind(account.to_owned())
                    .push_bind(*version)
                    .push_bind(change.uid)
                    .push_bind(change.folder.clone())
                    .push_bind(change.flags.clone())
                    .push_bind(change.path.clone())
                    .push_bind(now);
            });
            insert.build().execute(tx).await.map(drop)
        })?;
    }
    Ok(())
}

/// An entry that is no change of a message or folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEvent<'e> {
    pub(crate) kind: EventType,
    /// The data. A JSON object.
    pub(crate) data: &'e serde_json::Value,
    /// The key of the event, or `None`. An event with the key of an earlier event is not added.
    pub(crate) key: Option<&'e str>,
}

/// Adds an event to the change log. Does nothing if the mailbox has no change log. The transaction
/// must hold the lock of the account.
pub(crate) async fn append_event(
    tx: &mut Tx,
    account: &str,
    event: NewEvent<'_>,
) -> Result<(), Error> {
    if let Some(key) = event.key
        && tx.exists(HAS_KEY, (account, key)).await?
    {
        return Ok(());
    }
    let version: Option<i64> = tx
        .optional_value(ALLOCATE_VERSIONS, (account, 1_i64))
        .await?;
    let Some(version) = version else {
        return Ok(());
    };
    let now = Clock::default().now();
    let row = (
        account,
        version,
        event.kind.name(),
        event.data.to_string(),
        event.key,
        now,
    );
    tx.execute(APPEND_EVENT, row).await?;
    Ok(())
}

/// An entry of a change log that is no change of a message or folder.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct LoggedEvent {
    version: i64,
    /// The type, such as `outbox.sent`.
    #[sqlx(rename = "type")]
    pub kind: String,
    /// A JSON object.
    pub data: String,
    changed_at: i64,
}

impl LoggedEvent {
    /// Returns the version of the entry.
    #[must_use]
    pub fn version(&self) -> u64 {
        read_version(self.version)
    }

    /// Returns the time of the entry.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.changed_at)
    }
}

/// The change logs of mailboxes.
#[derive(Clone, Debug)]
pub struct ChangeLog {
    pub(crate) db: Db,
}

impl ChangeLog {
    /// Returns the versions in the change log. Returns `None` if the mailbox has no log.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn log_state(&self, account: &str) -> Result<Option<LogState>, Error> {
        let row: Option<(i64, i64)> = on!(&self.db, pool => sqlx::query_as(LOG_STATE).bind(account).fetch_optional(pool).await)?;
        Ok(row.map(LogState::of))
    }

    /// Returns the first `limit` entries with versions greater than `from` and at most `to` that
    /// are no changes of messages or folders.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn events(
        &self,
        account: &str,
        (from, to): (u64, u64),
        limit: u32,
    ) -> Result<Vec<LoggedEvent>, Error> {
        let parameters = (account, stored(from), stored(to), limit);
        self.db.all(EVENTS, parameters).await
    }

    /// Starts the change log if the mailbox has no log and all of its folders were synced. Returns
    /// the version of the last change. Returns `None` if the log has not been started, or if the
    /// log is not consistent with the folders. In both cases, the caller must sync again.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn start_log(&self, account: &str) -> Result<Option<u64>, Error> {
        if self.log_state(account).await?.is_none() {
            let mut tx = self.db.begin().await?;
            tx.lock_account(account).await?;
            let unsynced: Option<i32> = on_tx!(&mut tx, tx => sqlx::query_scalar(UNSYNCED).bind(account).fetch_optional(tx).await)?;
            if unsynced.is_some() {
                return Ok(None);
            }
            on_tx!(&mut tx, tx => sqlx::query(START_LOG).bind(account).execute(tx).await.map(drop))?;
            tx.commit().await?;
        }
        let version: Option<Option<i64>> = on!(&self.db, pool => sqlx::query_scalar(VERSION).bind(account).fetch_optional(pool).await)?;
        Ok(version.flatten().map(read_version))
    }
}

/// Deletes at most [`MAX_PRUNED`] changes that were made before `before`, or that exceed
/// [`MAX_CHANGES`]. `before` is in milliseconds since 1970. Returns `true` if this function deleted
/// changes.
pub(super) async fn prune(db: &Db, account: &str, before: i64) -> Result<bool, Error> {
    let mut tx = db.begin().await?;
    tx.lock_account(account).await?;
    let state: Option<(i64, i64)> =
        on_tx!(&mut tx, tx => sqlx::query_as(LOG_STATE).bind(account).fetch_optional(tx).await)?;
    let Some(state) = state.map(LogState::of) else {
        return Ok(false);
    };
    let last: Option<i64> = on_tx!(&mut tx, tx => sqlx::query_scalar(LAST_OUTDATED)
        .bind(account)
        .bind(stored(state.pruned_version + MAX_PRUNED))
        .bind(before)
        .bind(stored(state.version.saturating_sub(MAX_CHANGES)))
        .fetch_one(tx)
        .await)?;
    let Some(last) = last else {
        return Ok(false);
    };
    for query in [PRUNE, PRUNE_EVENTS, SET_PRUNED] {
        on_tx!(&mut tx, tx => sqlx::query(query)
            .bind(account)
            .bind(last)
            .execute(tx)
            .await
            .map(drop))?;
    }
    tx.commit().await?;
    Ok(true)
}
