//! Reads and writes the data that a sync with the mail server needs: the flags of messages, the
//! HIGHESTMODSEQ of folders (RFC 7162), and the messages of a folder.
//!
//! Several hosts can sync one mailbox at the same time. Each write of flags or of a HIGHESTMODSEQ
//! first compares the folder's stored UIDVALIDITY and HIGHESTMODSEQ with the values that the caller
//! has read. If another host has changed these values, the write does nothing.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use latchmail_core::message_number::Uid;
use sqlx::QueryBuilder;

use super::log::{self, LoggedChange};
use super::{IndexedMessage, MAX_PER_STATEMENT, MessageIndex, WITH_IDENTITIES, number};
use crate::db::{Db, Error, Tx, on, on_tx};

/// Callers append the folder's id and conditions.
const FLAGS: &str = "SELECT imap_uid, uid, flags FROM messages WHERE folder_id = ";
const SET_FLAGS: &str = "UPDATE messages SET flags = ";
/// Returns no row if another sync has changed the folder's UIDVALIDITY or HIGHESTMODSEQ.
const UNCHANGED: &str = "SELECT 1 FROM folders \
     WHERE account_id = $1 AND id = $2 AND uid_validity = $3 AND COALESCE(highest_modseq, -1) = $4";
const SET_HIGHEST_MODSEQ: &str = "UPDATE folders SET highest_modseq = $5 \
     WHERE account_id = $1 AND id = $2 AND uid_validity = $3 AND COALESCE(highest_modseq, -1) = $4";
/// Returns the path of a folder in the change log, if the message index contains no messages of the
/// folder.
const EMPTY_FOLDER: &str = "SELECT listed_path FROM folders f WHERE account_id = $1 AND id = $2 AND listed_path IS NOT NULL \
     AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.folder_id = f.id)";
const REMOVE_FOLDER: &str = "UPDATE folders SET listed_path = NULL, highest_modseq = NULL WHERE account_id = $1 AND id = $2";

/// A folder with the values that a sync has read from the message index.
#[derive(Clone, Copy, Debug)]
pub struct SyncedFolder<'a> {
    /// The service's own id of the folder.
    pub id: &'a str,
    /// The UIDVALIDITY.
    pub uid_validity: u32,
    /// The stored HIGHESTMODSEQ. `None` if the folder was never synced.
    pub highest_modseq: Option<u64>,
}

/// A selection of messages in a folder.
#[derive(Clone, Copy, Debug)]
pub enum FolderMessages<'a> {
    /// All messages.
    All,
    /// The messages whose UIDVALIDITY differs from this value.
    OtherUidValidity(u32),
    /// The messages with this UIDVALIDITY whose IMAP UIDs are in one of the ranges.
    Ranges(u32, &'a [RangeInclusive<Uid>]),
}

#[derive(Debug, sqlx_macros::FromRow)]
struct FlagsRow {
    imap_uid: i64,
    uid: i64,
    flags: Option<String>,
}

/// The stored flags of messages. A folder can have a million messages. Therefore
/// [`StoredFlags::into_map`] converts the rows in a separate step, so that callers can run the
/// conversion outside of asynchronous code.
#[derive(Debug, Default)]
pub struct StoredFlags(Vec<FlagsRow>);

impl StoredFlags {
    /// Returns the flags by IMAP UID. The flags are `None` if the message was never synced.
    #[must_use]
    pub fn into_map(self) -> HashMap<Uid, Option<Arc<str>>> {
        self.0.into_iter().filter_map(FlagsRow::stored).collect()
    }

    /// Returns the count of messages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl MessageIndex {
    /// Returns the stored flags of the messages with these IMAP UIDs. Omits messages without a
    /// message number.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn flags_at(
        &self,
        folder: &SyncedFolder<'_>,
        imap_uids: &[Uid],
    ) -> Result<StoredFlags, Error> {
        let mut flags = Vec::new();
        for imap_uids in imap_uids.chunks(MAX_PER_STATEMENT) {
            let rows: Vec<FlagsRow> = on!(&self.db, pool => {
                flags_query(folder, imap_uids.iter().copied()).build_query_as().fetch_all(pool).await
            })?;
            flags.extend(rows);
        }
        Ok(StoredFlags(flags))
    }

    /// Returns the stored flags of all messages of a folder that have a message number.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn folder_flags(&self, folder: &SyncedFolder<'_>) -> Result<StoredFlags, Error> {
        let rows: Vec<FlagsRow> = on!(&self.db, pool => {
            let mut query = QueryBuilder::new(FLAGS);
            query.push_bind(folder.id.to_owned()).push(" AND uid_validity = ");
            query.push_bind(i64::from(folder.uid_validity));
            query.build_query_as().fetch_all(pool).await
        })?;
        Ok(StoredFlags(rows))
    }

    /// Stores the flags of messages, and adds the changes to the change log. Skips messages without
    /// a message number. Returns `false` if another sync has changed the folder. In that case, the
    /// caller must start its sync of the folder again.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Some flags can be stored in that case.
    pub async fn set_flags(
        &self,
        account: &str,
        folder: &SyncedFolder<'_>,
        flags: &[(Uid, Arc<str>)],
    ) -> Result<bool, Error> {
        for flags in flags.chunks(MAX_PER_STATEMENT) {
            let mut tx = self.db.begin().await?;
            tx.lock_account(account).await?;
            if !is_unchanged(&mut tx, account, folder).await? {
                return Ok(false);
            }
            let rows: Vec<FlagsRow> = on_tx!(&mut tx, tx => {
                let imap_uids = flags.iter().map(|(imap_uid, _)| *imap_uid);
                flags_query(folder, imap_uids).build_query_as().fetch_all(tx).await
            })?;
            let new: HashMap<i64, &Arc<str>> = flags
                .iter()
                .map(|(imap_uid, flags)| (i64::from(*imap_uid), flags))
                .collect();
            let mut changes = Vec::new();
            let mut by_flags: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
            for row in rows {
                let Some(new) = new.get(&row.imap_uid) else {
                    continue;
                };
                if row.flags.as_deref() == Some(new) {
                    continue;
                }
                by_flags.entry(new).or_default().push(row.uid);
                let before = LoggedChange::of_message(row.uid, folder.id, row.flags);
                changes.push(before.unwrap_or_else(|| LoggedChange::created(row.uid)));
            }
            for (flags, uids) in by_flags {
                on_tx!(&mut tx, tx => {
                    let mut query = QueryBuilder::new(SET_FLAGS);
                    query.push_bind(flags.to_owned()).push(" WHERE account_id = ");
                    query.push_bind(account.to_owned()).push(" AND uid IN (0");
                    for uid in uids {
                        query.push(", ").push_bind(uid);
                    }
                    query.push(")").build().execute(tx).await.map(drop)
                })?;
            }
            log::append(&mut tx, account, &changes).await?;
            tx.commit().await?;
        }
        Ok(true)
    }

    /// Records that the message index contains all changes of the folder up to `highest_modseq`.
    /// Does nothing if another sync has changed the folder.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn set_highest_modseq(
        &self,
        account: &str,
        folder: &SyncedFolder<'_>,
        highest_modseq: u64,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account).await?;
        on_tx!(&mut tx, tx => sqlx::query(SET_HIGHEST_MODSEQ)
            .bind(account)
            .bind(folder.id)
            .bind(i64::from(folder.uid_validity))
            .bind(modseq(folder.highest_modseq))
            .bind(modseq(Some(highest_modseq)))
            .execute(tx)
            .await
            .map(drop))?;
        tx.commit().await
    }

    /// Returns the selected messages of the folder with the service's id `folder`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn folder_messages(
        &self,
        account: &str,
        folder: &str,
        selection: FolderMessages<'_>,
    ) -> Result<Vec<IndexedMessage>, Error> {
        let all: [&[RangeInclusive<Uid>]; 1] = [&[]];
        let chunks: Vec<&[RangeInclusive<Uid>]> = match selection {
            FolderMessages::Ranges(_, ranges) => ranges.chunks(MAX_PER_STATEMENT / 2).collect(),
            _ => all.to_vec(),
        };
        let mut messages: Vec<IndexedMessage> = Vec::new();
        for ranges in chunks {
            let rows: Vec<IndexedMessage> = on!(&self.db, pool => {
                let mut query = QueryBuilder::new(WITH_IDENTITIES);
                query.push_bind(account.to_owned()).push(" AND m.folder_id = ");
                query.push_bind(folder.to_owned());
                match selection {
                    FolderMessages::All => {}
                    FolderMessages::OtherUidValidity(uid_validity) => {
                        query.push(" AND m.uid_validity <> ").push_bind(i64::from(uid_validity));
                    }
                    FolderMessages::Ranges(uid_validity, _) => {
                        query.push(" AND m.uid_validity = ").push_bind(i64::from(uid_validity));
                        query.push(" AND (FALSE");
                        for range in ranges {
                            query.push(" OR m.imap_uid BETWEEN ").push_bind(i64::from(*range.start()));
                            query.push(" AND ").push_bind(i64::from(*range.end()));
                        }
                        query.push(")");
                    }
                }
                query.build_query_as().fetch_all(pool).await
            })?;
            messages.extend(rows);
        }
        messages.sort_unstable_by_key(|message| number(message.uid));
        messages.dedup_by_key(|message| message.uid);
        Ok(messages)
    }

    /// Adds the deletion of folders to the change log. Skips a folder that has messages in the
    /// message index. The caller must remove these messages first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Some folders can be removed in that case.
    pub async fn remove_folders(&self, account: &str, folders: &[String]) -> Result<(), Error> {
        // Use several transactions, because on SQLite all other writers wait until a transaction
        // ends.
        for folders in folders.chunks(MAX_PER_STATEMENT) {
            remove_some_folders(&self.db, account, folders).await?;
        }
        Ok(())
    }
}

impl FlagsRow {
    fn stored(self) -> Option<(Uid, Option<Arc<str>>)> {
        Some((
            Uid(u32::try_from(self.imap_uid).ok()?),
            self.flags.map(Arc::from),
        ))
    }
}

fn flags_query<D>(
    folder: &SyncedFolder<'_>,
    imap_uids: impl Iterator<Item = Uid>,
) -> QueryBuilder<D>
where
    D: sqlx::Database,
    String: sqlx::Type<D> + for<'q> sqlx::Encode<'q, D>,
    i64: sqlx::Type<D> + for<'q> sqlx::Encode<'q, D>,
{
    let mut query = QueryBuilder::new(FLAGS);
    query.push_bind(folder.id.to_owned());
    query.push(" AND uid_validity = ");
    query.push_bind(i64::from(folder.uid_validity));
    query.push(" AND imap_uid IN (0");
    for imap_uid in imap_uids {
        query.push(", ").push_bind(i64::from(imap_uid));
    }
    query.push(")");
    query
}

async fn is_unchanged(
    tx: &mut Tx,
    account: &str,
    folder: &SyncedFolder<'_>,
) -> Result<bool, Error> {
    let unchanged: Option<i32> = on_tx!(tx, tx => sqlx::query_scalar(UNCHANGED)
        .bind(account)
        .bind(folder.id)
        .bind(i64::from(folder.uid_validity))
        .bind(modseq(folder.highest_modseq))
        .fetch_optional(tx)
        .await)?;
    Ok(unchanged.is_some())
}

/// Converts a HIGHESTMODSEQ to the value that the queries compare. `None` becomes -1. The maximum
/// in the protocol is 2^63 - 1 (RFC 7162, section 7).
fn modseq(highest_modseq: Option<u64>) -> i64 {
    highest_modseq.map_or(-1, |modseq| i64::try_from(modseq).unwrap_or(i64::MAX))
}

async fn remove_some_folders(db: &Db, account: &str, folders: &[String]) -> Result<(), Error> {
    let mut tx = db.begin().await?;
    tx.lock_account(account).await?;
    let mut changes = Vec::new();
    for id in folders {
        let path: Option<String> = on_tx!(&mut tx, tx => sqlx::query_scalar(EMPTY_FOLDER)
            .bind(account)
            .bind(id)
            .fetch_optional(tx)
            .await)?;
        let Some(path) = path else {
            continue;
        };
        on_tx!(&mut tx, tx => sqlx::query(REMOVE_FOLDER)
            .bind(account)
            .bind(id)
            .execute(tx)
            .await
            .map(drop))?;
        changes.push(LoggedChange::of_folder(id, Some(&path)));
    }
    log::append(&mut tx, account, &changes).await?;
    tx.commit().await
}
