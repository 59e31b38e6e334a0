//! Reads the states of folders and messages at two versions of a mailbox's change log.
//!
//! Each change in the log contains the state of one folder or message before the change. Therefore
//! the state at a version is the state in the first change with a later version. If the folder or
//! message has no later change, the state at the version is the current state. The current state is
//! read in the same statement as the changes, or before the changes, so that a concurrent change
//! does not affect the result.
//!
//! A folder or message can have any number of changes. Therefore the queries return only the first
//! change of each folder or message after a version.

use std::collections::HashMap;

use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::MessageNumber;
use sqlx::QueryBuilder;

use super::log::{ChangeLog, read_version, stored};
use super::{IndexedFolder, MAX_PER_STATEMENT, number};
use crate::db::{Db, Error, on};

/// Returns the folders that exist now (kind 0), the folders with changes after the version $2 (kind
/// 1), and the folders with changes after the version $3 (kind 2). Omits folders that neither exist
/// now nor existed before the change. The joins use primary keys, because PostgreSQL can need
/// quadratic time for joins on other columns.
const FOLDERS: &str = "SELECT f.id, f.path, f.listed_path, f.uid_validity, f.uid_next, \
     f.highest_modseq, \
     f.object_id, 0 AS kind, f.listed_path AS logged_path, CAST(0 AS BIGINT) AS changed_at FROM folders f \
     WHERE f.account_id = $1 AND f.listed_path IS NOT NULL \
     UNION ALL SELECT f.id, f.path, f.listed_path, f.uid_validity, f.uid_next, f.highest_modseq, \
     f.object_id, 1, c.path, c.changed_at FROM (SELECT folder_id, MIN(version) AS version \
     FROM mailbox_changes WHERE account_id = $1 AND uid = 0 AND version > $2 GROUP BY folder_id) s \
     JOIN mailbox_changes c ON c.account_id = $1 AND c.version = s.version \
     JOIN folders f ON f.id = s.folder_id WHERE c.path IS NOT NULL OR f.listed_path IS NOT NULL \
     UNION ALL SELECT f.id, f.path, f.listed_path, f.uid_validity, f.uid_next, f.highest_modseq, \
     f.object_id, 2, c.path, c.changed_at FROM (SELECT folder_id, MIN(version) AS version \
     FROM mailbox_changes WHERE account_id = $1 AND uid = 0 AND version > $3 GROUP BY folder_id) s \
     JOIN mailbox_changes c ON c.account_id = $1 AND c.version = s.version \
     JOIN folders f ON f.id = s.folder_id WHERE c.path IS NOT NULL OR f.listed_path IS NOT NULL";
/// Returns the first change of each message after the version $2, if the version of this change is
/// greater than $3 and at most $4.
const FIRST_CHANGES: &str = "SELECT c.version, c.uid, c.folder_id, c.flags, c.changed_at FROM mailbox_changes c \
     WHERE c.account_id = $1 AND c.version > $3 AND c.version <= $4 AND c.uid > 0 AND NOT EXISTS ( \
     SELECT 1 FROM mailbox_changes e WHERE e.account_id = c.account_id AND e.uid = c.uid AND e.version > $2 AND e.version < c.version) \
     ORDER BY c.version";
/// Callers append the account and conditions.
const CURRENT: &str =
    "SELECT uid, folder_id, flags FROM messages WHERE flags IS NOT NULL AND account_id = ";
/// Returns the first change of each message after a version. Callers append message numbers to
/// `LATER`, and then `LATER_OF`, the account, `LATER_THAN`, the version, `LATER_IN` and the
/// account. The inner query must not refer to the table `c`. Otherwise PostgreSQL executes the
/// inner query for each change of the account.
const LATER: &str = "WITH m (uid) AS (VALUES (0)";
const LATER_OF: &str = ") SELECT c.version, c.uid, c.folder_id, c.flags, c.changed_at \
     FROM m JOIN mailbox_changes c ON c.version = (SELECT MIN(l.version) FROM mailbox_changes l \
     WHERE l.uid = m.uid AND l.account_id = ";
const LATER_THAN: &str = " AND l.version > ";
const LATER_IN: &str = ") WHERE m.uid > 0 AND c.account_id = ";

/// The paths of a folder at the versions `since` and `until` of [`ChangeLog::folder_histories`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderHistory {
    /// The service's own id of the folder.
    pub id: String,
    /// The folder's id in the HTTP API. See [`IndexedFolder::public_id`].
    pub public_id: String,
    /// `true` if `public_id` is the mail server's id of the folder.
    pub has_object_id: bool,
    /// The UIDVALIDITY.
    pub uid_validity: u32,
    /// The path at the version `since`. `None` if the folder did not exist at that version.
    pub before: Option<String>,
    /// The path at the version `until`. `None` if the folder did not exist at that version.
    pub after: Option<String>,
    /// The current path. `None` if the folder does not exist.
    pub now: Option<String>,
    /// The time of the first change after the version `since`. The time has no meaning if the
    /// folder has not changed.
    pub changed_at: Timestamp,
}

/// The folder and the flags of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageState {
    /// The service's own id of the folder.
    pub folder: String,
    /// The flags, sorted and separated by spaces.
    pub flags: String,
}

/// A change of a message between the versions `since` and `until` of
/// [`ChangeLog::message_changes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageChange {
    /// The version of the message's first change after the version `since`.
    pub version: u64,
    /// The time of the first change.
    pub changed_at: Timestamp,
    /// The service's number of the message.
    pub number: MessageNumber,
    /// The state at the version `since`. `None` if the message did not exist at that version.
    pub before: Option<MessageState>,
    /// The state at the version `until`. `None` if the message did not exist at that version.
    pub after: Option<MessageState>,
}

#[derive(sqlx_macros::FromRow)]
struct FolderRow {
    #[sqlx(flatten)]
    folder: IndexedFolder,
    kind: i32,
    /// The path before the change. `None` if the folder did not exist.
    logged_path: Option<String>,
    changed_at: i64,
}

impl FolderHistory {
    /// Returns the history of a folder without changes.
    fn unchanged(folder: IndexedFolder) -> Self {
        let now = folder.listed_path().map(ToOwned::to_owned);
        Self {
            before: now.clone(),
            after: now.clone(),
            now,
            public_id: folder.public_id().to_owned(),
            has_object_id: folder.object_id().is_some(),
            uid_validity: folder.uid_validity(),
            id: folder.id,
            changed_at: Timestamp::from_millis(0),
        }
    }
}

#[derive(sqlx_macros::FromRow)]
pub(super) struct ChangeRow {
    version: i64,
    uid: i64,
    changed_at: i64,
    #[sqlx(flatten)]
    state: StateRow,
}

#[derive(sqlx_macros::FromRow)]
struct CurrentRow {
    uid: i64,
    #[sqlx(flatten)]
    state: StateRow,
}

#[derive(sqlx_macros::FromRow)]
struct StateRow {
    folder_id: Option<String>,
    flags: Option<String>,
}

impl StateRow {
    fn state(self) -> Option<MessageState> {
        Some(MessageState {
            folder: self.folder_id?,
            flags: self.flags?,
        })
    }
}

impl ChangeLog {
    /// Returns the paths of folders at the versions `since` and `until`, in any order. Omits
    /// folders that exist neither at `since`, nor at `until`, nor now.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn folder_histories(
        &self,
        account: &str,
        since: u64,
        until: u64,
    ) -> Result<Vec<FolderHistory>, Error> {
        let rows: Vec<FolderRow> = on!(&self.db, pool => sqlx::query_as(FOLDERS)
            .bind(account)
            .bind(stored(since))
            .bind(stored(until))
            .fetch_all(pool)
            .await)?;
        let mut histories: HashMap<String, FolderHistory> = HashMap::with_capacity(rows.len());
        for row in rows {
            let id = row.folder.id.clone();
            let history = histories
                .entry(id)
                .or_insert_with(|| FolderHistory::unchanged(row.folder));
            match row.kind {
                1 => {
                    history.before = row.logged_path;
                    history.changed_at = Timestamp::from_millis(row.changed_at);
                }
                2 => history.after = row.logged_path,
                _ => {}
            }
        }
        Ok(histories.into_values().collect())
    }

    /// Returns the messages that were changed between the versions `since` and `until`. Returns
    /// only messages whose first change after `since` has a version greater than `from` and at most
    /// `to`. The messages are in the order of these first changes.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn message_changes(
        &self,
        account: &str,
        (since, until): (u64, u64),
        (from, to): (u64, u64),
    ) -> Result<Vec<MessageChange>, Error> {
        let first: Vec<ChangeRow> = on!(&self.db, pool => sqlx::query_as(FIRST_CHANGES)
            .bind(account)
            .bind(stored(since))
            .bind(stored(from))
            .bind(stored(to))
            .fetch_all(pool)
            .await)?;
        let mut changes = Vec::with_capacity(first.len());
        let mut first = first.into_iter().peekable();
        while first.peek().is_some() {
            let chunk: Vec<ChangeRow> = first.by_ref().take(MAX_PER_STATEMENT).collect();
            let uids: Vec<i64> = chunk.iter().map(|row| row.uid).collect();
            let current: Vec<CurrentRow> = on!(&self.db, pool => {
                let mut query = QueryBuilder::new(CURRENT);
                query.push_bind(account.to_owned()).push(" AND uid IN (0");
                for uid in &uids {
                    query.push(", ").push_bind(*uid);
                }
                query.push(")").build_query_as().fetch_all(pool).await
            })?;
            let later = first_changes_after(&self.db, account, until, &uids).await?;
            let mut after: HashMap<i64, Option<MessageState>> = HashMap::new();
            after.extend(current.into_iter().map(|row| (row.uid, row.state.state())));
            after.extend(later.into_iter().map(|row| (row.uid, row.state.state())));
            changes.extend(chunk.into_iter().map(|row| MessageChange {
                version: read_version(row.version),
                changed_at: Timestamp::from_millis(row.changed_at),
                number: number(row.uid),
                before: row.state.state(),
                after: after.remove(&row.uid).flatten(),
            }));
        }
        Ok(changes)
    }
}

/// Returns the first change of each message in `uids` after `version`.
pub(super) async fn first_changes_after(
    db: &Db,
    account: &str,
    version: u64,
    uids: &[i64],
) -> Result<Vec<ChangeRow>, Error> {
    Ok(on!(db, pool => {
        let mut query = QueryBuilder::new(LATER);
        for uid in uids {
            query.push(", (").push_bind(*uid).push(")");
        }
        query.push(LATER_OF).push_bind(account.to_owned());
        query.push(LATER_THAN).push_bind(stored(version));
        query.push(LATER_IN).push_bind(account.to_owned());
        query.build_query_as().fetch_all(pool).await
    })?)
}
