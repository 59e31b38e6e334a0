//! The index of messages in the database. The index contains the service's own number and the
//! location of each message. A location consists of the folder, the UIDVALIDITY and the IMAP UID.
//!
//! Each mailbox has one sequence of message numbers. A message number is never reused. If a
//! folder's UIDVALIDITY changes, all messages of the folder have new locations. The rows with the
//! old locations remain, and the identities in these rows help to recognize the messages at the new
//! locations.
//!
//! This module does not access the mail server.

mod folders;
mod history;
mod log;
mod merged_threads;
mod moves;
mod new_messages;
mod replica;
mod states;
mod sweep;
mod sync;

use std::collections::{HashMap, HashSet};

use latchmail_core::message_number::{MessageNumber, Uid};
use sqlx::QueryBuilder;

use crate::db::{self, Db, Error, FromLookup, Lookup, Tx, on, on_tx};
use log::LoggedChange;

/// Returns one row for each indexed message of a folder. If the index contains the folder but none
/// of these messages, returns one row without a message. Callers append the UIDVALIDITY and
/// conditions.
const KNOWN: &str = "SELECT f.id, f.uid_validity, m.imap_uid, m.uid FROM folders f \
     LEFT JOIN messages m ON m.folder_id = f.id AND m.uid_validity = ";
/// `imported` is true for the messages of [`crate::imports`].
const LOCATION: &str = "SELECT f.path, m.uid_validity, m.imap_uid, EXISTS (SELECT 1 FROM imported_messages i \
     WHERE i.account_id = m.account_id AND i.identity = m.identity) AS imported FROM messages m \
     JOIN folders f ON f.id = m.folder_id WHERE m.account_id = $1 AND m.uid = $2";
/// Callers append conditions to `LOCATIONS`, `WITH_IDENTITIES` and `HAS_IDENTITY`.
const LOCATIONS: &str = "SELECT m.uid, f.path, m.uid_validity, m.imap_uid, EXISTS (SELECT 1 FROM imported_messages i \
     WHERE i.account_id = m.account_id AND i.identity = m.identity) AS imported FROM messages m \
     JOIN folders f ON f.id = m.folder_id WHERE m.account_id = ";
const WITH_IDENTITIES: &str = "SELECT m.uid, f.path, m.uid_validity, m.imap_uid, m.folder_id, m.identity FROM messages m \
     JOIN folders f ON f.id = m.folder_id WHERE m.account_id = ";
const HAS_IDENTITY: &str = "SELECT uid FROM messages WHERE account_id = ";
/// Changes a message's location, unless a concurrent request changed the location $6, $7, $8 that
/// the caller has read.
const RELOCATE: &str = "UPDATE messages SET folder_id = $3, uid_validity = $4, imap_uid = $5, \
     previous_folder_id = CASE WHEN folder_id = $3 THEN previous_folder_id ELSE folder_id END \
     WHERE account_id = $1 AND uid = $2 AND folder_id = $6 AND uid_validity = $7 AND imap_uid = $8 RETURNING flags";

/// Maximum number of rows in one statement. SQLite and PostgreSQL limit the number of parameters.
pub(crate) const MAX_PER_STATEMENT: usize = 500;

/// A value that does not change when a message is moved. A copy has the same identity as its
/// original.
pub type Identity = [u8; 16];

/// The last known location of a message.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Location {
    /// The folder's path.
    pub path: String,
    uid_validity: i64,
    imap_uid: i64,
    /// `true` if a client of the API imported the message. Always `false` for the locations of
    /// [`IndexedMessage`].
    #[sqlx(default)]
    pub imported: bool,
}

impl FromLookup for Location {
    fn of(row: &db::Row<'_>) -> Result<Self, Error> {
        Ok(Self {
            path: row.get("path")?,
            uid_validity: row.get("uid_validity")?,
            imap_uid: row.get("imap_uid")?,
            imported: row.get("imported")?,
        })
    }
}

#[derive(sqlx_macros::FromRow)]
struct LocationRow {
    uid: i64,
    #[sqlx(flatten)]
    location: Location,
}

/// A message in the index, with its identity.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct IndexedMessage {
    uid: i64,
    /// The message's last known location.
    #[sqlx(flatten)]
    pub location: Location,
    folder_id: String,
    identity: Vec<u8>,
}

impl Location {
    /// Returns a location, for tests.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn for_tests(path: &str, uid_validity: u32, imap_uid: Uid) -> Self {
        Self {
            path: path.to_owned(),
            uid_validity: uid_validity.into(),
            imap_uid: imap_uid.into(),
            imported: false,
        }
    }

    /// Returns the UIDVALIDITY that belongs to [`Location::imap_uid`].
    #[must_use]
    pub fn uid_validity(&self) -> u32 {
        u32::try_from(self.uid_validity).unwrap_or(0)
    }

    /// Returns the IMAP UID.
    #[must_use]
    pub fn imap_uid(&self) -> Uid {
        Uid(u32::try_from(self.imap_uid).unwrap_or(0))
    }
}

#[derive(sqlx_macros::FromRow)]
struct Row {
    id: String,
    uid_validity: i64,
    imap_uid: Option<i64>,
    uid: Option<i64>,
}

/// The indexed data of a folder and of some of its messages.
#[derive(Default)]
pub struct Known {
    /// The service's id of the folder. `None` if the index does not contain the folder with the
    /// requested UIDVALIDITY.
    pub folder: Option<String>,
    /// The service's message numbers by IMAP UID. Messages without a message number are omitted.
    pub numbers: HashMap<Uid, MessageNumber>,
}

/// The index of the messages and folders of all mailboxes. The HTTP API identifies messages by the
/// message numbers in this index.
#[derive(Clone, Debug)]
pub struct MessageIndex {
    pub(crate) db: Db,
    pub(crate) lookup: Lookup,
    /// The change logs of the mailboxes.
    pub log: ChangeLog,
}

impl MessageIndex {
    /// Returns the indexed data of a folder and of its messages with these IMAP UIDs.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn known(
        &self,
        account: &str,
        path: &str,
        uid_validity: u32,
        imap_uids: &[Uid],
    ) -> Result<Known, Error> {
        let rows = on!(&self.db, pool => knowing(account, path, uid_validity, imap_uids).build_query_as().fetch_all(pool).await)?;
        Ok(Known::of(rows, uid_validity))
    }

    /// Returns the last known location of the message with this message number. Returns `None` if
    /// the index does not contain the message number.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn location(
        &self,
        account: &str,
        number: MessageNumber,
    ) -> Result<Option<Location>, Error> {
        let Ok(uid) = i64::try_from(number) else {
            return Ok(None);
        };
        let parameters = [account.into(), uid.into()];
        self.lookup.one(LOCATION, &parameters).await
    }

    /// Returns the last known locations of messages. Omits messages whose message numbers are not
    /// in the index.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn locations(
        &self,
        account: &str,
        numbers: &[MessageNumber],
    ) -> Result<Vec<(MessageNumber, Location)>, Error> {
        let mut locations = Vec::with_capacity(numbers.len());
        for numbers in numbers.chunks(MAX_PER_STATEMENT) {
            let rows: Vec<LocationRow> = on!(&self.db, pool => {
                let mut query = QueryBuilder::new(LOCATIONS);
                query.push_bind(account.to_owned()).push(" AND m.uid IN (0");
                for uid in numbers.iter().filter_map(|number| i64::try_from(*number).ok()) {
                    query.push(", ").push_bind(uid);
                }
                query.push(")").build_query_as().fetch_all(pool).await
            })?;
            locations.extend(rows.into_iter().map(|row| (number(row.uid), row.location)));
        }
        Ok(locations)
    }

    /// Returns the messages with these message numbers.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn messages(
        &self,
        account: &str,
        numbers: &[MessageNumber],
    ) -> Result<Vec<IndexedMessage>, Error> {
        let mut messages = Vec::new();
        for numbers in numbers.chunks(MAX_PER_STATEMENT) {
            let rows: Vec<IndexedMessage> = on!(&self.db, pool => {
                let mut query = QueryBuilder::new(WITH_IDENTITIES);
                query.push_bind(account.to_owned()).push(" AND m.uid IN (0");
                for uid in numbers.iter().filter_map(|number| i64::try_from(*number).ok()) {
                    query.push(", ").push_bind(uid);
                }
                query.push(")").build_query_as().fetch_all(pool).await
            })?;
            messages.extend(rows);
        }
        Ok(messages)
    }

    /// Returns the messages with one of these identities. Messages with the same identity are
    /// copies, or are the same message before and after a move.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn with_identities(
        &self,
        account: &str,
        identities: &[Identity],
    ) -> Result<Vec<IndexedMessage>, Error> {
        let mut messages = Vec::new();
        for identities in identities.chunks(MAX_PER_STATEMENT) {
            let rows: Vec<IndexedMessage> = on!(&self.db, pool => {
                let mut query = QueryBuilder::new(WITH_IDENTITIES);
                push_identities(&mut query, account, " AND m.identity IN (", identities);
                query.push(" ORDER BY m.imap_uid, m.uid");
                query.build_query_as().fetch_all(pool).await
            })?;
            messages.extend(rows);
        }
        Ok(messages)
    }

    /// Returns `true` if the index contains a message with one of these identities.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn has_identity(
        &self,
        account: &str,
        identities: &[Identity],
    ) -> Result<bool, Error> {
        for identities in identities.chunks(MAX_PER_STATEMENT) {
            let found: Option<i64> = on!(&self.db, pool => {
                let mut query = QueryBuilder::new(HAS_IDENTITY);
                push_identities(&mut query, account, " AND identity IN (", identities);
                query.push(" LIMIT 1").build_query_scalar().fetch_optional(pool).await
            })?;
            if found.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Assigns the service's message numbers to those messages of a folder that have no message
    /// number, in one transaction. Returns the message numbers of `messages` by IMAP UID. Returns
    /// `None` if the index does not contain the folder with this UIDVALIDITY.
    ///
    /// `messages` contains the IMAP UID and the identity of each message. `moved` contains messages
    /// that were moved to this folder, each with its new IMAP UID.
    ///
    /// A moved message keeps its message number. If a concurrent request changed its location, it
    /// has left this folder, or is a copy, and gets no message number. All other messages without a
    /// message number get new message numbers, in the order of their IMAP UIDs.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn assign_numbers(
        &self,
        account: &str,
        path: &str,
        uid_validity: u32,
        messages: &[(Uid, Identity)],
        moved: &[(Uid, IndexedMessage)],
    ) -> Result<Option<HashMap<Uid, MessageNumber>>, Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account).await?;
        // Read the message numbers again, because a concurrent request may have assigned message
        // numbers before this transaction got the lock.
        let uids: Vec<Uid> = messages.iter().map(|(imap_uid, _)| *imap_uid).collect();
        let rows = on_tx!(&mut tx, tx => knowing(account, path, uid_validity, &uids).build_query_as().fetch_all(tx).await)?;
        let Known {
            folder,
            mut numbers,
        } = Known::of(rows, uid_validity);
        let Some(folder) = folder else {
            return Ok(None);
        };
        let mut changes = Vec::new();
        let mut relocated_elsewhere = HashSet::new();
        for (imap_uid, message) in moved {
            if numbers.contains_key(imap_uid) {
                continue;
            }
            let relocated = message.relocate(&mut tx, account, &folder, uid_validity, *imap_uid);
            if let Some(flags) = relocated.await? {
                numbers.insert(*imap_uid, message.number());
                let before = LoggedChange::of_message(message.uid, &message.folder_id, flags);
                changes.extend(before);
            } else {
                relocated_elsewhere.insert(*imap_uid);
            }
        }
        log::append(&mut tx, account, &changes).await?;
        let mut new: Vec<(Uid, Identity)> = messages
            .iter()
            .filter(|(imap_uid, _)| {
                !numbers.contains_key(imap_uid) && !relocated_elsewhere.contains(imap_uid)
            })
            .copied()
            .collect();
        new.sort_unstable_by_key(|(imap_uid, _)| *imap_uid);
        new.dedup_by_key(|(imap_uid, _)| *imap_uid);
        if !new.is_empty() {
            let folder = (&*folder, uid_validity);
            let first = new_messages::add(&mut tx, account, folder, &new).await?;
            new_messages::mark_copies(&mut tx, account, first).await?;
            let new = (first..).zip(&new);
            numbers.extend(new.map(|(uid, (imap_uid, _))| (*imap_uid, number(uid))));
        }
        tx.commit().await?;
        Ok(Some(numbers))
    }

    /// Returns the message number of a message that the service has stored, in one transaction with
    /// fewer statements than [`MessageIndex::assign_numbers`]. Assigns a new message number, unless
    /// a concurrent request has assigned one.
    ///
    /// Returns `None` and changes nothing if the index does not contain the folder with this
    /// UIDVALIDITY, or if the message has no message number and the index contains a message with
    /// the same identity.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn number_stored(
        &self,
        account: &str,
        message: &StoredMessage<'_>,
    ) -> Result<Option<MessageNumber>, Error> {
        let mut tx = self.db.begin_locked(account).await?;
        let number = number_stored(&mut tx, account, message).await?;
        if number.is_some() {
            tx.commit().await?;
        }
        Ok(number)
    }
}

/// Appends the account, `condition` and the identities in parentheses.
fn push_identities<D>(
    query: &mut QueryBuilder<D>,
    account: &str,
    condition: &str,
    identities: &[Identity],
) where
    D: sqlx::Database,
    String: sqlx::Type<D> + for<'q> sqlx::Encode<'q, D>,
    Vec<u8>: sqlx::Type<D> + for<'q> sqlx::Encode<'q, D>,
{
    query.push_bind(account.to_owned()).push(condition);
    let mut list = query.separated(", ");
    for identity in identities {
        list.push_bind(identity.to_vec());
    }
    query.push(")");
}

impl IndexedMessage {
    /// Returns the service's number of the message.
    #[must_use]
    pub fn number(&self) -> MessageNumber {
        number(self.uid)
    }

    /// Returns the service's own id of the message's folder.
    #[must_use]
    pub fn folder(&self) -> &str {
        &self.folder_id
    }

    /// Returns a message without a location, for tests.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn for_tests(uid: i64, identity: Identity) -> Self {
        Self {
            uid,
            location: Location::for_tests("", 0, Uid(0)),
            folder_id: String::new(),
            identity: identity.to_vec(),
        }
    }

    /// Returns the message's identity.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity.as_slice().try_into().unwrap_or_default()
    }

    /// Changes the location of this message, unless a concurrent request changed the location. If
    /// this call changed the location, returns the stored flags. The stored flags are `None` if the
    /// message was never synced.
    async fn relocate(
        &self,
        tx: &mut Tx,
        account: &str,
        folder: &str,
        uid_validity: u32,
        imap_uid: Uid,
    ) -> Result<Option<Option<String>>, Error> {
        let was = &self.location;
        Ok(on_tx!(tx, tx => sqlx::query_scalar(RELOCATE)
            .bind(account)
            .bind(self.uid)
            .bind(folder)
            .bind(i64::from(uid_validity))
            .bind(i64::from(imap_uid))
            .bind(&self.folder_id)
            .bind(was.uid_validity)
            .bind(was.imap_uid)
            .fetch_optional(tx)
            .await)?)
    }
}

fn number(uid: i64) -> MessageNumber {
    MessageNumber(u64::try_from(uid).unwrap_or(0))
}

fn knowing<D>(account: &str, path: &str, uid_validity: u32, imap_uids: &[Uid]) -> QueryBuilder<D>
where
    D: sqlx::Database,
    String: sqlx::Type<D> + for<'q> sqlx::Encode<'q, D>,
    i64: sqlx::Type<D> + for<'q> sqlx::Encode<'q, D>,
{
    let mut query = QueryBuilder::new(KNOWN);
    query.push_bind(i64::from(uid_validity));
    query.push(" AND m.imap_uid IN (");
    // An empty list is not valid in SQL. Therefore the list begins with 0, which is not a valid
    // IMAP UID.
    query.push("0");
    for imap_uid in imap_uids {
        query.push(", ").push_bind(i64::from(*imap_uid));
    }
    query
        .push(") WHERE f.account_id = ")
        .push_bind(account.to_owned());
    query.push(" AND f.path = ").push_bind(path.to_owned());
    query
}

impl Known {
    fn of(rows: Vec<Row>, uid_validity: u32) -> Self {
        let mut known = Self::default();
        for row in rows {
            if let (Some(imap_uid), Some(uid)) = (row.imap_uid, row.uid)
                && let (Ok(imap_uid), Ok(uid)) = (u32::try_from(imap_uid), u64::try_from(uid))
            {
                known.numbers.insert(Uid(imap_uid), MessageNumber(uid));
            }
            let is_it = row.uid_validity == i64::from(uid_validity);
            known.folder = is_it.then_some(row.id);
        }
        known
    }
}

pub use folders::{IndexedFolder, ListedFolder};
pub use history::{FolderHistory, MessageChange, MessageState};
pub use log::{ChangeLog, LogState, LoggedEvent};
pub(crate) use log::{NewEvent, append_event};
pub use new_messages::StoredMessage;
pub(crate) use new_messages::number_stored;
pub use replica::{Replica, ReplicaDelta, ReplicaFolder, ReplicaMessage};
pub use states::CurrentState;
pub use sync::{FolderMessages, StoredFlags, SyncedFolder};

#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod tests;
