//! The index of folders. For each folder, the index contains the path, the ids and the UIDVALIDITY.
//! The index also contains the lowest IMAP UID whose message has not been compared with the mail
//! server yet.

use std::collections::{HashMap, HashSet};

use latchmail_core::hexadecimal;
use sqlx::QueryBuilder;

use super::log::{self, LoggedChange};
use super::{MAX_PER_STATEMENT, MessageIndex};
use crate::db;
use crate::db::{Db, Error, FromLookup, Tx, on, on_tx};

const ALL: &str = "SELECT id, path, listed_path, uid_validity, uid_next, highest_modseq, object_id FROM folders \
     WHERE account_id = $1 ORDER BY path";
const LISTED: &str = "SELECT id, path, listed_path, uid_validity, uid_next, highest_modseq, \
     object_id FROM folders WHERE account_id = $1 AND listed_path IS NOT NULL ORDER BY path";
const OCCUPIED: &str = "SELECT id, path, listed_path, uid_validity, uid_next, highest_modseq, \
     object_id FROM folders f WHERE account_id = $1 AND (listed_path IS NOT NULL \
     OR EXISTS (SELECT 1 FROM messages m WHERE m.folder_id = f.id)) ORDER BY path";
/// Returns the deleted folders to which no change in the change log refers.
const FORGETTABLE: &str = "SELECT id FROM folders f WHERE account_id = $1 AND listed_path IS NULL \
     AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.folder_id = f.id) \
     EXCEPT SELECT folder_id FROM mailbox_changes WHERE account_id = $1 AND uid = 0";
/// Callers append the account, a condition with folder ids, and `)`.
const FORGET: &str = "DELETE FROM folders WHERE listed_path IS NULL \
     AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.folder_id = folders.id) AND account_id = ";
const ANY: &str = "SELECT 1 FROM folders WHERE account_id = $1 LIMIT 1";
const ADD: &str = "INSERT INTO folders (account_id, id, path, listed_path, uid_validity, uid_next, object_id, highest_modseq) \
     VALUES ($1, $2, $3, $3, $4, $5, $6, $7)";
const CHANGE: &str = "UPDATE folders \
     SET path = $3, listed_path = $3, uid_validity = $4, uid_next = $5, object_id = $6, highest_modseq = $7 \
     WHERE account_id = $1 AND id = $2";
const SET_UID_NEXT: &str = "UPDATE folders SET uid_next = $4 \
     WHERE account_id = $1 AND path = $2 AND uid_validity = $3 AND uid_next < $4";
/// Replaces the paths of folders with paths that no folder can have, because folder names contain
/// no line feed. The database keeps the row of a deleted folder and the rows of the folder's
/// messages.
///
/// Callers append the account, a condition with folder ids, and `)`.
const CLEAR_PATHS: &str = "UPDATE folders SET path = '\n' || id WHERE account_id = ";

/// A folder in the message index.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct IndexedFolder {
    /// The service's own id of the folder.
    pub id: String,
    /// The folder's path. If another folder has taken this path, the value is not a valid path and
    /// begins with a line feed.
    pub path: String,
    listed_path: Option<String>,
    uid_validity: i64,
    uid_next: i64,
    highest_modseq: Option<i64>,
    object_id: Option<String>,
}

/// A folder in the mail server's list.
#[derive(Clone, Copy, Debug)]
pub struct ListedFolder<'a> {
    /// The folder's path.
    pub path: &'a str,
    /// The folder's UIDVALIDITY.
    pub uid_validity: u32,
    /// UIDNEXT: the smallest UID that the next message can get. 0 if the server does not report
    /// UIDNEXT.
    pub uid_next: u32,
    /// The mail server's id of the folder. `None` if the server has no folder ids.
    pub object_id: Option<&'a str>,
}

impl FromLookup for IndexedFolder {
    fn of(row: &db::Row<'_>) -> Result<Self, Error> {
        Ok(Self {
            id: row.get("id")?,
            path: row.get("path")?,
            listed_path: row.get("listed_path")?,
            uid_validity: row.get("uid_validity")?,
            uid_next: row.get("uid_next")?,
            highest_modseq: row.get("highest_modseq")?,
            object_id: row.get("object_id")?,
        })
    }
}

impl IndexedFolder {
    /// Returns the folder's id for clients. Returns the mail server's id if the server has folder
    /// ids. Otherwise returns the service's id.
    #[must_use]
    pub fn public_id(&self) -> &str {
        self.object_id.as_deref().unwrap_or(&self.id)
    }

    /// Returns the mail server's id of the folder. Returns `None` if the message index contains no
    /// such id.
    #[must_use]
    pub fn object_id(&self) -> Option<&str> {
        self.object_id.as_deref()
    }

    /// Returns the UIDVALIDITY of the indexed UIDs.
    #[must_use]
    pub fn uid_validity(&self) -> u32 {
        u32::try_from(self.uid_validity).unwrap_or(0)
    }

    /// Returns the lowest IMAP UID that no reconciliation with the mail server has processed.
    #[must_use]
    pub fn uid_next(&self) -> u32 {
        u32::try_from(self.uid_next).unwrap_or(1)
    }

    /// Returns the path of the folder in the change log. Returns `None` if the change log contains
    /// the deletion of the folder.
    #[must_use]
    pub fn listed_path(&self) -> Option<&str> {
        self.listed_path.as_deref()
    }

    /// Returns the HIGHESTMODSEQ of the last sync. The value is 0 if the server has no QRESYNC.
    /// Returns `None` if the folder was never synced.
    #[must_use]
    pub fn highest_modseq(&self) -> Option<u64> {
        u64::try_from(self.highest_modseq?).ok()
    }

    /// Returns `true` if the listed folder is this folder and has the same path. The ids are not
    /// compared if the mail server lists the folder without an id.
    #[must_use]
    pub fn is(&self, listed: &ListedFolder<'_>) -> bool {
        self.path == listed.path
            && self.listed_path.is_some()
            && self.uid_validity() == listed.uid_validity
            && (listed.object_id.is_none() || self.object_id() == listed.object_id)
    }

    /// Returns this folder with the values of the listed folder. If the UIDVALIDITY has changed,
    /// the next reconciliation with the mail server must process all messages of the folder.
    fn as_listed(&self, listed: &ListedFolder<'_>, object_id: Option<&str>) -> Self {
        let same = self.uid_validity() == listed.uid_validity;
        Self {
            id: self.id.clone(),
            path: listed.path.to_owned(),
            listed_path: Some(listed.path.to_owned()),
            uid_validity: i64::from(listed.uid_validity),
            uid_next: if same { self.uid_next } else { 1 },
            highest_modseq: self.highest_modseq.filter(|_| same),
            object_id: object_id.or(self.object_id()).map(ToOwned::to_owned),
        }
    }
}

impl MessageIndex {
    /// Returns `true` if the message index contains at least one folder of the account.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn has_folders(&self, account: &str) -> Result<bool, Error> {
        let any: Option<i32> = on!(&self.db, pool => sqlx::query_scalar(ANY).bind(account).fetch_optional(pool).await)?;
        Ok(any.is_some())
    }

    /// Returns the account's indexed folders including deleted folders, sorted by path.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    #[cfg(any(test, feature = "testing"))]
    pub async fn folders(&self, account: &str) -> Result<Vec<IndexedFolder>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_as(ALL).bind(account).fetch_all(pool).await)?)
    }

    /// Returns the account's indexed folders except deleted folders, sorted by path. The index can
    /// contain any number of deleted folders.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn existing_folders(&self, account: &str) -> Result<Vec<IndexedFolder>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_as(LISTED).bind(account).fetch_all(pool).await)?)
    }

    /// Returns the same folders as [`Self::existing_folders`], and the deleted folders with
    /// messages in the message index.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn occupied_folders(&self, account: &str) -> Result<Vec<IndexedFolder>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_as(OCCUPIED).bind(account).fetch_all(pool).await)?)
    }

    /// Updates the message index with all listed folders of an account. Returns the entries of
    /// these folders in the message index, in the listed order.
    ///
    /// A listed folder matches the entry with the same `object_id`. If the listed folder or the
    /// entry has no `object_id`, the path and the UIDVALIDITY must be equal. A listed folder
    /// without a matching entry is new.
    ///
    /// The next reconciliation with the mail server processes all messages of a new folder, because
    /// they can have been moved from another folder. If the message index contains no folder of the
    /// account, no message can have been moved from a known folder. Reconciliations then process
    /// only messages that arrive after this update.
    ///
    /// Adds created and renamed folders to the change log. [`Self::remove_folders`] adds deleted
    /// folders.
    ///
    /// If a folder is not listed any longer, its entry remains. Therefore the folder's messages are
    /// recognized if the messages appear in another folder. If another listed folder has the same
    /// path, the entry loses its path.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn update_folders(
        &self,
        account: &str,
        folders: &[ListedFolder<'_>],
    ) -> Result<Vec<IndexedFolder>, Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account).await?;
        let indexed: Vec<IndexedFolder> =
            on_tx!(&mut tx, tx => sqlx::query_as(ALL).bind(account).fetch_all(tx).await)?;
        let now = matched(folders, &indexed)?;
        let are: HashMap<&str, &IndexedFolder> = now.iter().map(|n| (n.id.as_str(), n)).collect();
        let taken: HashMap<&str, &IndexedFolder> =
            now.iter().map(|n| (n.path.as_str(), n)).collect();
        let loses_path = |was: &&IndexedFolder| {
            let moves = are.get(was.id.as_str()).is_some_and(|n| n.path != was.path);
            moves || taken.get(was.path.as_str()).is_some_and(|n| n.id != was.id)
        };
        let cleared: Vec<&IndexedFolder> = indexed.iter().filter(loses_path).collect();
        // Folders may have swapped their paths. Therefore all old paths are cleared before new
        // paths are written.
        for folders in cleared.chunks(MAX_PER_STATEMENT) {
            clear_paths(&mut tx, account, folders).await?;
        }
        let had: HashMap<&str, &IndexedFolder> =
            indexed.iter().map(|n| (n.id.as_str(), n)).collect();
        let mut written = HashSet::new();
        let mut changes = Vec::new();
        for folder in now.iter().filter(|n| written.insert(n.id.as_str())) {
            let before = had.get(folder.id.as_str());
            let before = before.and_then(|was| was.listed_path());
            if before != folder.listed_path() {
                changes.push(LoggedChange::of_folder(&folder.id, before));
            }
            match had.get(folder.id.as_str()) {
                Some(was) if *was == folder => {}
                Some(_) => folder.write(&mut tx, account, CHANGE).await?,
                None => folder.write(&mut tx, account, ADD).await?,
            }
        }
        log::append(&mut tx, account, &changes).await?;
        tx.commit().await?;
        Ok(now)
    }

    /// Changes the paths of folders without the mail server's ids after this service has renamed a
    /// folder. `renamed` contains the old and the new path of the folder and of each subfolder.
    /// [`Self::update_folders`] would treat these folders as new folders. Adds the changes to the
    /// change log.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn rename_folders(
        &self,
        account: &str,
        renamed: &HashMap<String, String>,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account).await?;
        let indexed: Vec<IndexedFolder> =
            on_tx!(&mut tx, tx => sqlx::query_as(ALL).bind(account).fetch_all(tx).await)?;
        let without_id = indexed
            .iter()
            .filter(|folder| folder.listed_path.is_some() && folder.object_id.is_none());
        let moves: HashMap<&str, &String> = without_id
            .filter_map(|folder| Some((folder.id.as_str(), renamed.get(&folder.path)?)))
            .collect();
        // Deleted folders can have the new paths.
        let new_paths: HashSet<&String> = moves.values().copied().collect();
        let loses_path = |folder: &&IndexedFolder| {
            moves.contains_key(folder.id.as_str()) || new_paths.contains(&folder.path)
        };
        let cleared: Vec<&IndexedFolder> = indexed.iter().filter(loses_path).collect();
        for folders in cleared.chunks(MAX_PER_STATEMENT) {
            clear_paths(&mut tx, account, folders).await?;
        }
        let mut changes = Vec::new();
        for folder in &indexed {
            if let Some(path) = moves.get(folder.id.as_str()) {
                changes.push(LoggedChange::of_folder(&folder.id, folder.listed_path()));
                let mut folder = folder.clone();
                folder.path.clone_from(path);
                folder.write(&mut tx, account, CHANGE).await?;
            }
        }
        log::append(&mut tx, account, &changes).await?;
        tx.commit().await
    }

    /// Records that a reconciliation with the mail server has processed all messages with an IMAP
    /// UID below `uid_next`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn set_uid_next(
        &self,
        account: &str,
        path: &str,
        uid_validity: u32,
        uid_next: u32,
    ) -> Result<(), Error> {
        let parameters = (account, path, uid_validity, uid_next);
        self.db.execute(SET_UID_NEXT, parameters).await?;
        Ok(())
    }
}

async fn clear_paths(tx: &mut Tx, account: &str, folders: &[&IndexedFolder]) -> Result<(), Error> {
    on_tx!(tx, tx => {
        let mut query = QueryBuilder::new(CLEAR_PATHS);
        query.push_bind(account.to_owned()).push(" AND id IN (");
        let mut ids = query.separated(", ");
        for folder in folders {
            ids.push_bind(folder.id.clone());
        }
        query.push(")").build().execute(tx).await.map(drop)
    })?;
    Ok(())
}

/// Returns the entries of the listed folders in the message index, in the listed order.
fn matched(
    folders: &[ListedFolder<'_>],
    indexed: &[IndexedFolder],
) -> Result<Vec<IndexedFolder>, Error> {
    let by_path: HashMap<&str, &IndexedFolder> =
        indexed.iter().map(|n| (n.path.as_str(), n)).collect();
    let by_id: HashMap<&str, &IndexedFolder> = indexed
        .iter()
        .filter_map(|n| Some((n.object_id()?, n)))
        .collect();
    // A server may list one folder under several paths. The folder's id belongs to only one path:
    // the path in the message index, or the first listed path if the message index contains none of
    // the paths.
    let mut owners: HashMap<&str, &str> = HashMap::new();
    for listed in folders {
        if let Some(id) = listed.object_id {
            let owner = owners.entry(id).or_insert(listed.path);
            if by_id.get(id).is_some_and(|n| n.path == listed.path) {
                *owner = listed.path;
            }
        }
    }
    let first = indexed.is_empty();
    let mut now: Vec<IndexedFolder> = Vec::with_capacity(folders.len());
    let mut places: HashMap<&str, usize> = HashMap::new();
    for listed in folders {
        // Two listed folder names can have the same path for clients. In that case, the names share
        // one entry.
        if let Some(place) = places.insert(listed.path, now.len()) {
            now.push(now[place].clone());
            continue;
        }
        let object_id = listed.object_id;
        let object_id = object_id.filter(|id| owners[id] == listed.path);
        let same = object_id.and_then(|id| by_id.get(id));
        let alike = || {
            let found = by_path.get(listed.path)?;
            let alike = found.uid_validity() == listed.uid_validity
                && (found.object_id.is_none() || listed.object_id.is_none());
            alike.then_some(found)
        };
        now.push(match same.or_else(alike) {
            Some(found) => found.as_listed(listed, object_id),
            None => IndexedFolder {
                id: fresh_id()?,
                path: listed.path.to_owned(),
                listed_path: Some(listed.path.to_owned()),
                highest_modseq: None,
                uid_validity: i64::from(listed.uid_validity),
                uid_next: i64::from(if first { listed.uid_next } else { 1 }),
                object_id: object_id.map(ToOwned::to_owned),
            },
        });
    }
    Ok(now)
}

impl IndexedFolder {
    async fn write(&self, tx: &mut Tx, account: &str, how: &'static str) -> Result<(), Error> {
        on_tx!(tx, tx => sqlx::query(how)
            .bind(account)
            .bind(&self.id)
            .bind(&self.path)
            .bind(self.uid_validity)
            .bind(self.uid_next)
            .bind(&self.object_id)
            .bind(self.highest_modseq)
            .execute(tx)
            .await
            .map(drop))?;
        Ok(())
    }
}

/// Removes the deleted folders to which no change in the change log refers. Otherwise the database
/// would contain every folder that a mailbox ever had.
///
/// # Errors
/// Returns [`Error`] if the database fails. Some folders can be removed in that case.
pub(super) async fn forget_deleted(db: &Db, account: &str) -> Result<(), Error> {
    let ids: Vec<String> =
        on!(db, pool => sqlx::query_scalar(FORGETTABLE).bind(account).fetch_all(pool).await)?;
    for ids in ids.chunks(MAX_PER_STATEMENT) {
        let mut tx = db.begin().await?;
        tx.lock_account(account).await?;
        on_tx!(&mut tx, tx => {
            let mut query = QueryBuilder::new(FORGET);
            query.push_bind(account.to_owned()).push(" AND id IN (");
            let mut list = query.separated(", ");
            for id in ids {
                list.push_bind(id.clone());
            }
            query.push(")").build().execute(tx).await.map(drop)
        })?;
        tx.commit().await?;
    }
    Ok(())
}

fn fresh_id() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| {
        Error::Unusable(format!("the system's random number generator failed: {e}"))
    })?;
    Ok(hexadecimal::lower(&bytes))
}
