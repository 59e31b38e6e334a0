//! The change log of a mailbox. [`super::history`] reads the log. Versions, states and the rules
//! for new entries are described at the table `mailbox_changes`.
//!
//! A mailbox has a log after its first sync. A message appears in the log when its flags are stored
//! for the first time. If it is removed before, only its removal is in the log: a listing may have
//! returned its number to a client.

use std::time::Duration;

use sqlx::QueryBuilder;

use super::{MAX_PER_STATEMENT, folders, number};
use crate::clock::{Clock, Timestamp};
use crate::db::{Error, Tx, on, on_tx};
use crate::{Db, Directory};

/// The time for which a change is stored.
const RETENTION: Duration = Duration::from_hours(30 * 24);
/// Maximum number of stored changes of one mailbox.
const MAX_CHANGES: u64 = 1_000_000;
/// Maximum number of changes that one transaction deletes. On SQLite, other writers wait for the
/// transaction.
const MAX_PRUNED: u64 = 10_000;
/// Maximum number of mailboxes in one query of the sweep.
const MAX_MAILBOXES: i64 = 100;

/// Returns no row if the mailbox has no log.
pub(super) const LOG_STATE: &str =
    "SELECT version, pruned_version FROM mailboxes WHERE account_id = $1 AND version IS NOT NULL";
/// Reserves $2 versions. Returns the last reserved version. Returns no row if the mailbox has no
/// log.
const ALLOCATE_VERSIONS: &str = "UPDATE mailboxes SET version = version + CAST($2 AS BIGINT) \
     WHERE account_id = $1 AND version IS NOT NULL RETURNING version";
const APPEND: &str =
    "INSERT INTO mailbox_changes (account_id, version, uid, folder_id, flags, path, changed_at) ";
/// Returns mailboxes after the account $1 with too many changes, or with changes that were made
/// before $2.
const OUTDATED: &str = "SELECT m.account_id FROM mailboxes m \
     LEFT JOIN mailbox_changes c ON c.account_id = m.account_id AND c.version = m.pruned_version + 1 \
     WHERE m.account_id > $1 AND m.version > m.pruned_version AND (c.changed_at < $2 OR m.version - m.pruned_version > $3) \
     ORDER BY m.account_id LIMIT $4";
/// Returns the last version to delete. Changes are ordered by time, apart from small differences
/// between the clocks of hosts.
const LAST_OUTDATED: &str = "SELECT MAX(version) FROM mailbox_changes \
     WHERE account_id = $1 AND version <= $2 AND (changed_at < $3 OR version <= $4)";
const PRUNE: &str = "DELETE FROM mailbox_changes WHERE account_id = $1 AND version <= $2";
const SET_PRUNED: &str = "UPDATE mailboxes SET pruned_version = $2 WHERE account_id = $1";

/// The versions in the change log of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// The version of the last change.
    pub version: u64,
    /// The version of the last change that was deleted from the log.
    pub pruned_version: u64,
}

impl LogState {
    /// Converts a row of [`LOG_STATE`].
    pub(super) fn of((version, pruned_version): (i64, i64)) -> Self {
        Self {
            version: number(version),
            pruned_version: number(pruned_version),
        }
    }
}

/// Converts a version for a query. A version that is too large for the database is later than all
/// stored versions.
pub(super) fn stored(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

/// A change for the log, with the state before the change.
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
    /// Returns the change that replaces this state. If the message was never synced, its flags are
    /// empty in the log.
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
    /// Returns the creation of a message.
    pub(super) fn created(uid: i64) -> Self {
        Self {
            uid,
            folder: None,
            flags: None,
            path: None,
        }
    }

    /// Returns the change of a message that was in this folder and had these flags. Returns `None`
    /// if the message is not in the log.
    pub(super) fn of_message(uid: i64, folder: &str, flags: Option<String>) -> Option<Self> {
        Some(Self {
            uid,
            folder: Some(folder.to_owned()),
            flags: Some(flags?),
            path: None,
        })
    }

    /// Returns the change of a folder that had this path.
    pub(super) fn of_folder(id: &str, path: Option<&str>) -> Self {
        Self {
            uid: 0,
            folder: Some(id.to_owned()),
            flags: None,
            path: path.map(ToOwned::to_owned),
        }
    }
}

/// Adds changes to the log. Does nothing if the mailbox has no log. The transaction must hold the
/// lock of the account.
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

/// Returns the versions in the change log. Returns `None` if the mailbox has no log.
///
/// # Errors
/// Returns [`Error`] if the database fails.
pub async fn log_state(db: &Db, account: &str) -> Result<Option<LogState>, Error> {
    let row: Option<(i64, i64)> =
        on!(db, pool => sqlx::query_as(LOG_STATE).bind(account).fetch_optional(pool).await)?;
    Ok(row.map(LogState::of))
}

impl Directory {
    /// Deletes old changes from the change logs, and then deleted folders.
    pub(crate) async fn sweep_changes(&self, now: Timestamp) -> Result<(), Error> {
        let before = now.minus(RETENTION).millis();
        let mut after = String::new();
        loop {
            let accounts: Vec<String> = on!(&self.db, pool => sqlx::query_scalar(OUTDATED)
                .bind(&after)
                .bind(before)
                .bind(stored(MAX_CHANGES))
                .bind(MAX_MAILBOXES)
                .fetch_all(pool)
                .await)?;
            let Some(last) = accounts.last() else {
                return Ok(());
            };
            after.clone_from(last);
            for account in &accounts {
                while prune(&self.db, account, before).await? {}
                folders::forget_deleted(&self.db, account).await?;
            }
        }
    }
}

/// Deletes some changes that were made before `before`, or that exceed the maximum number. Returns
/// `true` if it deleted changes.
async fn prune(db: &Db, account: &str, before: i64) -> Result<bool, Error> {
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
    for query in [PRUNE, SET_PRUNED] {
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
