//! Reads the change log: the states of folders and messages at two versions.
//!
//! The state at a version is the state before the first later change. If there is no later change, it is the current state. The functions read the current
//! state first and the changes after that. So a concurrent change does not affect the result.

use std::collections::HashMap;

use sqlx::QueryBuilder;

use super::log::stored;
use super::{IndexedFolder, MAX_PER_STATEMENT, folders, number};
use crate::Db;
use crate::db::{Error, on};

const FOLDER_CHANGES: &str = "SELECT version, folder_id, path FROM mailbox_changes \
     WHERE account_id = $1 AND uid = 0 AND version > $2 ORDER BY version";
/// Returns the first change of each message after the version $2, if its version is greater than $3 and at most $4.
const FIRST_CHANGES: &str = "SELECT c.version, c.uid, c.folder_id, c.flags FROM mailbox_changes c \
     WHERE c.account_id = $1 AND c.version > $3 AND c.version <= $4 AND c.uid > 0 AND NOT EXISTS ( \
     SELECT 1 FROM mailbox_changes e WHERE e.account_id = c.account_id AND e.uid = c.uid AND e.version > $2 AND e.version < c.version) \
     ORDER BY c.version";
/// Callers append conditions to `CURRENT` and `LATER`.
const CURRENT: &str =
    "SELECT uid, folder_id, flags FROM messages WHERE flags IS NOT NULL AND account_id = ";
const LATER: &str =
    "SELECT version, uid, folder_id, flags FROM mailbox_changes WHERE account_id = ";

/// The paths of a folder at two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderHistory {
    /// The service's own id of the folder.
    pub id: String,
    /// The folder's id for clients.
    pub public_id: String,
    /// `true` if `public_id` is the mail server's id.
    pub has_object_id: bool,
    /// The UIDVALIDITY.
    pub uid_validity: u32,
    /// The path at the first version. `None` if the folder did not exist.
    pub before: Option<String>,
    /// The path at the second version. `None` if the folder did not exist.
    pub after: Option<String>,
    /// The current path. `None` if the folder does not exist.
    pub now: Option<String>,
}

/// The folder and the flags of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageState {
    /// The service's own id of the folder.
    pub folder: String,
    /// The flags, sorted and separated by spaces.
    pub flags: String,
}

/// A change of a message between two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageChange {
    /// The version of the message's first change after the first version.
    pub version: u64,
    /// The number of the message.
    pub uid: u64,
    /// The state at the first version. `None` if the message did not exist.
    pub before: Option<MessageState>,
    /// The state at the second version. `None` if the message did not exist.
    pub after: Option<MessageState>,
}

#[derive(sqlx_macros::FromRow)]
struct FolderRow {
    version: i64,
    folder_id: String,
    path: Option<String>,
}

#[derive(sqlx_macros::FromRow)]
struct ChangeRow {
    version: i64,
    uid: i64,
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

/// Returns the paths of all folders at the versions `since` and `until`, in any order.
///
/// # Errors
/// Returns [`Error`] if the database fails.
pub async fn folder_histories(
    db: &Db,
    account: &str,
    since: u64,
    until: u64,
) -> Result<Vec<FolderHistory>, Error> {
    let current = folders(db, account).await?;
    let changes: Vec<FolderRow> = on!(db, pool => sqlx::query_as(FOLDER_CHANGES)
        .bind(account)
        .bind(stored(since))
        .fetch_all(pool)
        .await)?;
    let mut before: HashMap<&str, &Option<String>> = HashMap::new();
    let mut after: HashMap<&str, &Option<String>> = HashMap::new();
    for change in &changes {
        before.entry(&change.folder_id).or_insert(&change.path);
        if change.version > stored(until) {
            after.entry(&change.folder_id).or_insert(&change.path);
        }
    }
    let history = |folder: IndexedFolder| {
        let now = folder.listed_path().map(ToOwned::to_owned);
        let path = |paths: &HashMap<&str, &Option<String>>| {
            paths
                .get(folder.id.as_str())
                .map_or_else(|| now.clone(), |path| (*path).clone())
        };
        FolderHistory {
            before: path(&before),
            after: path(&after),
            now: now.clone(),
            public_id: folder.public_id().to_owned(),
            has_object_id: folder.object_id().is_some(),
            uid_validity: folder.uid_validity(),
            id: folder.id,
        }
    };
    Ok(current.into_iter().map(history).collect())
}

/// Returns the messages that were changed between the versions `since` and `until`. Omits a message if its first change after `since` is not greater than `from`
/// or is greater than `to`. The messages are in the order of their first changes.
///
/// # Errors
/// Returns [`Error`] if the database fails.
pub async fn message_changes(
    db: &Db,
    account: &str,
    (since, until): (u64, u64),
    (from, to): (u64, u64),
) -> Result<Vec<MessageChange>, Error> {
    let first: Vec<ChangeRow> = on!(db, pool => sqlx::query_as(FIRST_CHANGES)
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
        let current: Vec<CurrentRow> = on!(db, pool => {
            let mut query = QueryBuilder::new(CURRENT);
            query.push_bind(account.to_owned()).push(" AND uid IN (0");
            for uid in &uids {
                query.push(", ").push_bind(*uid);
            }
            query.push(")").build_query_as().fetch_all(pool).await
        })?;
        let later: Vec<ChangeRow> = on!(db, pool => {
            let mut query = QueryBuilder::new(LATER);
            query.push_bind(account.to_owned()).push(" AND version > ").push_bind(stored(until));
            query.push(" AND uid IN (0");
            for uid in &uids {
                query.push(", ").push_bind(*uid);
            }
            query.push(") ORDER BY version DESC").build_query_as().fetch_all(pool).await
        })?;
        // The rows of `later` are in descending order. Therefore the first later change of a message replaces the others.
        let mut after: HashMap<i64, Option<MessageState>> = HashMap::new();
        after.extend(current.into_iter().map(|row| (row.uid, row.state.state())));
        after.extend(later.into_iter().map(|row| (row.uid, row.state.state())));
        changes.extend(chunk.into_iter().map(|row| MessageChange {
            version: number(row.version),
            uid: number(row.uid),
            before: row.state.state(),
            after: after.remove(&row.uid).flatten(),
        }));
    }
    Ok(changes)
}
