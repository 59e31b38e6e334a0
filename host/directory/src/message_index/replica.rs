//! Reads a copy of the state of a mailbox from the database, for the search index: all folders, and
//! the location and flags of each message.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use latchmail_core::message_number::{MessageNumber, Uid};
use rusqlite::{Connection, OptionalExtension as _};
use sqlx::{PgPool, Row as _};

use super::log::{LOG_STATE, LogState, stored};
use super::{IndexedFolder, MessageIndex, number};
use crate::db::{Error, FromLookup as _, Lookup, Row, SNAPSHOT_POSTGRES};

const FOLDERS: &str = "SELECT id, path, listed_path, uid_validity, uid_next, highest_modseq, object_id FROM folders \
     WHERE account_id = $1 AND listed_path IS NOT NULL ORDER BY listed_path";
const MESSAGES: &str = "SELECT uid, folder_id, imap_uid, flags FROM messages \
     WHERE account_id = $1 AND flags IS NOT NULL";
const SYNCED: &str = "SELECT 1 FROM mailboxes WHERE account_id = $1 AND version IS NOT NULL";
/// Returns the messages that were changed after the version $2. For a removed message, all columns
/// except `uid` are NULL. Without the unary plus, SQLite would use the index
/// `mailbox_changes_by_message` and read all changes of the account.
const CHANGED: &str = "SELECT c.uid, m.folder_id, m.imap_uid, m.flags FROM (SELECT DISTINCT +uid AS uid FROM mailbox_changes \
     WHERE account_id = $1 AND version > $2 AND +uid > 0) c LEFT JOIN messages m ON m.account_id = $1 AND m.uid = c.uid";

/// A folder in a [`Replica`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaFolder {
    /// The service's own id of the folder.
    pub id: String,
    /// The folder's id in the HTTP API. See [`IndexedFolder::public_id`].
    pub public_id: String,
    /// The folder's path.
    pub path: String,
    /// The folder's UIDVALIDITY.
    pub uid_validity: u32,
    /// The lowest IMAP UID that no reconciliation with the mail server has processed.
    pub uid_next: u32,
    /// The HIGHESTMODSEQ of the last sync. 0 if the server does not support QRESYNC, `None` if the
    /// folder was never synced.
    pub highest_modseq: Option<u64>,
}

/// A message in a [`Replica`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaMessage {
    /// The service's number of the message.
    pub number: MessageNumber,
    /// The index of the message's folder in [`Replica::folders`].
    pub folder: usize,
    /// The IMAP UID.
    pub imap_uid: Uid,
    /// The flags, sorted and separated by spaces.
    pub flags: Arc<str>,
}

/// The state of a mailbox at one version of its change log.
#[derive(Clone, Debug)]
pub struct Replica {
    /// The version of the last change that this state contains.
    pub version: u64,
    /// The folders, sorted by path.
    pub folders: Vec<ReplicaFolder>,
    /// The messages, in any order.
    pub messages: Vec<ReplicaMessage>,
}

/// The changes of a mailbox after a version of its change log.
#[derive(Clone, Debug)]
pub struct ReplicaDelta {
    /// The version of the last change in the change log.
    pub version: u64,
    /// All folders, sorted by path.
    pub folders: Vec<ReplicaFolder>,
    /// The new and changed messages.
    pub changed: Vec<ReplicaMessage>,
    /// The service's numbers of the removed messages.
    pub removed: Vec<MessageNumber>,
}

impl MessageIndex {
    /// Returns `true` if the mailbox was synced at least once.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn is_synced(&self, account: &str) -> Result<bool, Error> {
        let synced: Option<()> = self.lookup.one(SYNCED, &[account.into()]).await?;
        Ok(synced.is_some())
    }

    /// Returns the state of a mailbox. Returns `None` if the mailbox was never synced.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn replica(&self, account: &str) -> Result<Option<Replica>, Error> {
        let read = read(self, account, None).await?;
        Ok(read.map(|(log, folders, messages, _)| Replica {
            version: log.version,
            folders,
            messages,
        }))
    }

    /// Returns the changes of a mailbox after `version`. Returns `None` if the change log does not
    /// contain all of these changes. In that case, the caller must read the whole replica.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn replica_since(
        &self,
        account: &str,
        version: u64,
    ) -> Result<Option<ReplicaDelta>, Error> {
        let read = read(self, account, Some(version)).await?;
        let contained = |log: &LogState| (log.pruned_version..=log.version).contains(&version);
        Ok(read
            .filter(|(log, ..)| contained(log))
            .map(|(log, folders, changed, removed)| ReplicaDelta {
                version: log.version,
                folders,
                changed,
                removed,
            }))
    }
}

type Read = (
    LogState,
    Vec<ReplicaFolder>,
    Vec<ReplicaMessage>,
    Vec<MessageNumber>,
);

/// If `since` is `None`, reads all messages. Otherwise reads the messages that were changed or
/// removed after the version `since`. All queries read one snapshot of the database.
async fn read(
    index: &MessageIndex,
    account: &str,
    since: Option<u64>,
) -> Result<Option<Read>, Error> {
    match &index.lookup {
        Lookup::Sqlite(file) => {
            let account = account.to_owned();
            file.read(move |connection| read_sqlite(connection, &account, since))
                .await
        }
        Lookup::Postgres(pool) => read_postgres(pool, account, since).await,
    }
}

/// Reads on one thread, with rusqlite. sqlx needs several times as long, because sqlx sends each
/// row to another thread.
fn read_sqlite(
    connection: &Connection,
    account: &str,
    since: Option<u64>,
) -> Result<Option<Read>, Error> {
    let tx = connection.unchecked_transaction()?;
    let log = tx
        .prepare_cached(LOG_STATE)?
        .query_row([account], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some(log) = log.map(LogState::of) else {
        return Ok(None);
    };
    let mut folders = Vec::new();
    let mut statement = tx.prepare_cached(FOLDERS)?;
    let mut rows = statement.query([account])?;
    while let Some(row) = rows.next()? {
        let folder = IndexedFolder::of(&Row::Sqlite(row))?;
        folders.push(ReplicaFolder::of(&folder));
    }
    let mut builder = Builder::new(&folders);
    let since = since.map(stored);
    let mut statement = tx.prepare_cached(if since.is_some() { CHANGED } else { MESSAGES })?;
    let mut rows = match since {
        None => statement.query([account])?,
        Some(since) => statement.query((account, since))?,
    };
    while let Some(row) = rows.next()? {
        let text = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str_or_null()?);
        builder.add(row.get(0)?, text(1)?, row.get(2)?, text(3)?);
    }
    let (messages, removed) = (builder.messages, builder.removed);
    Ok(Some((log, folders, messages, removed)))
}

async fn read_postgres(
    pool: &PgPool,
    account: &str,
    since: Option<u64>,
) -> Result<Option<Read>, Error> {
    let mut tx = pool.begin_with(SNAPSHOT_POSTGRES).await?;
    let log: Option<(i64, i64)> = sqlx::query_as(LOG_STATE)
        .bind(account)
        .fetch_optional(&mut *tx)
        .await?;
    let Some(log) = log.map(LogState::of) else {
        return Ok(None);
    };
    let folders: Vec<IndexedFolder> = sqlx::query_as(FOLDERS)
        .bind(account)
        .fetch_all(&mut *tx)
        .await?;
    let folders: Vec<ReplicaFolder> = folders.iter().map(ReplicaFolder::of).collect();
    let mut builder = Builder::new(&folders);
    let query = match since.map(stored) {
        None => sqlx::query(MESSAGES).bind(account),
        Some(since) => sqlx::query(CHANGED).bind(account).bind(since),
    };
    let mut rows = query.fetch(&mut *tx);
    while let Some(row) = rows.try_next().await? {
        let (folder, flags) = (row.try_get(1)?, row.try_get(3)?);
        builder.add(row.try_get(0)?, folder, row.try_get(2)?, flags);
    }
    let (messages, removed) = (builder.messages, builder.removed);
    Ok(Some((log, folders, messages, removed)))
}

impl ReplicaFolder {
    fn of(folder: &IndexedFolder) -> Self {
        Self {
            id: folder.id.clone(),
            public_id: folder.public_id().to_owned(),
            path: folder.listed_path().unwrap_or_default().to_owned(),
            uid_validity: folder.uid_validity(),
            uid_next: folder.uid_next(),
            highest_modseq: folder.highest_modseq(),
        }
    }
}

/// Converts rows of messages. Messages with the same flags share one string.
struct Builder<'a> {
    positions: HashMap<&'a str, usize>,
    flags: HashSet<Arc<str>>,
    messages: Vec<ReplicaMessage>,
    removed: Vec<MessageNumber>,
}

impl<'a> Builder<'a> {
    fn new(folders: &'a [ReplicaFolder]) -> Self {
        let positions = folders.iter().enumerate();
        Self {
            positions: positions
                .map(|(position, f)| (f.id.as_str(), position))
                .collect(),
            flags: HashSet::new(),
            messages: Vec::new(),
            removed: Vec::new(),
        }
    }

    fn add(&mut self, uid: i64, folder: Option<&str>, imap_uid: Option<i64>, flags: Option<&str>) {
        let number = number(uid);
        let folder = folder.and_then(|folder| self.positions.get(folder).copied());
        let (Some(folder), Some(imap_uid), Some(flags)) = (folder, imap_uid, flags) else {
            return self.removed.push(number);
        };
        let flags = if let Some(known) = self.flags.get(flags) {
            Arc::clone(known)
        } else {
            let new: Arc<str> = flags.into();
            self.flags.insert(Arc::clone(&new));
            new
        };
        self.messages.push(ReplicaMessage {
            number,
            folder,
            imap_uid: Uid(u32::try_from(imap_uid).unwrap_or(0)),
            flags,
        });
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Row as _};

    use super::CHANGED;
    use crate::db::Db;
    use crate::testing::on_sqlite;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_cost_of_new_changes_does_not_depend_on_the_length_of_the_log() {
        let tested = on_sqlite(|fresh| async move {
            let Db::Sqlite(pool, _) = fresh.directory.db() else {
                panic!("this is not SQLite");
            };
            let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {CHANGED}"));
            let query = sqlx::query(explain).bind("ada").bind(1_i64);
            let steps = query.fetch_all(pool).await.unwrap();
            let steps: Vec<String> = steps.iter().map(|step| step.get("detail")).collect();
            let reads_log = |step: &&String| step.contains("mailbox_changes");
            let step = steps.iter().find(reads_log).unwrap();
            assert!(step.contains("version>?"), "{step}");
        });
        tested.await.unwrap();
    }
}
