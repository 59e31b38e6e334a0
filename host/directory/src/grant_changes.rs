//! The journal of the changes that grants made. The owner of a grant can undo them for
//! [`RETENTION`].
//!
//! A change is recorded before it is made ([`GrantChanges::begin`]), and completed afterwards. If a
//! host stops between the two, the row stays in the state `begun`, and the change may have been
//! made. This module does not change mailboxes.

use std::collections::HashMap;
use std::time::Duration;

use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::MessageNumber;
use sqlx::QueryBuilder;

use crate::db::{Db, Error, Tx, on_tx};
use crate::message_index::MAX_PER_STATEMENT;

/// The time for which changes are kept.
pub const RETENTION: Duration = Duration::from_hours(30 * 24);
/// Maximum number of changes that one transaction deletes. On SQLite, other writers wait for the
/// transaction.
const MAX_SWEPT: i64 = 5000;

/// Counts the changes of a grant, at most $3.
const COUNT: &str = "SELECT COUNT(*) FROM \
    (SELECT 1 FROM grant_changes WHERE account_id = $1 AND grant_id = $2 LIMIT $3) counted";
const USED: &str = "SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM grant_changes \
    WHERE account_id = $1 AND key_id IS NOT NULL";
/// Callers append values.
const INSERT: &str = "INSERT INTO grant_changes (account_id, grant_id, at, kind, state, subject, uid, \
    before_place, details, size, key_id, sealed_key) ";
const INSERT_CHUNK: &str =
    "INSERT INTO grant_change_chunks (key_id, number, sealed) VALUES ($1, $2, $3)";
const CHUNK: &str = "SELECT sealed FROM grant_change_chunks WHERE key_id = $1 AND number = $2";
const COMPLETE: &str = "UPDATE grant_changes SET state = 'done', uid = $2, subject = $3, \
    after_place = $4, details = $5 WHERE id = $1";

macro_rules! select {
    ($conditions:literal) => {
        concat!(
            "SELECT id, at, kind, state, subject, uid, before_place, after_place, undone_place, \
             details, key_id, sealed_key FROM grant_changes WHERE account_id = $1 AND grant_id = $2 ",
            $conditions
        )
    };
}
const LIST: &str = select!("AND id < $3 ORDER BY id DESC LIMIT $4");
const GRANTS: &str = "SELECT DISTINCT grant_id FROM grant_changes WHERE account_id = $1 ORDER BY 1";
/// Returns the changes of one subject since a time, newest first.
const OF_SUBJECT: &str = select!("AND subject = $3 AND at >= $4 ORDER BY id DESC");
const SUBJECTS: &str = "SELECT DISTINCT subject FROM grant_changes WHERE account_id = $1 AND grant_id = $2 \
    AND at >= $3 AND state <> 'undone' AND subject > $4 ORDER BY subject LIMIT $5";
const SWEEP: &str = "DELETE FROM grant_changes WHERE id IN \
    (SELECT id FROM grant_changes WHERE at <= $1 ORDER BY at LIMIT $2)";

/// The location of a message, with the id of the folder, which does not change when the folder is
/// renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The service's own id of the folder.
    pub folder: String,
    /// The UIDVALIDITY of the folder.
    pub uid_validity: u32,
    /// The IMAP UID.
    pub imap_uid: u32,
}

impl Place {
    fn text(&self) -> String {
        format!("{} {} {}", self.folder, self.uid_validity, self.imap_uid)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        Some(Self {
            folder: words.next()?.to_owned(),
            uid_validity: words.next()?.parse().ok()?,
            imap_uid: words.next()?.parse().ok()?,
        })
    }
}

/// The state of a recorded change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The change may have been made.
    Begun,
    /// The change was made.
    Done,
    /// The change is being undone, or may have been undone.
    Undoing,
    /// The change was undone.
    Undone,
}

impl State {
    /// Returns the name of the state in the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Undoing => "undoing",
            Self::Undone => "undone",
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "done" => Self::Done,
            "undoing" => Self::Undoing,
            "undone" => Self::Undone,
            _ => Self::Begun,
        }
    }
}

/// A change that is not recorded yet.
#[derive(Clone, Debug)]
pub struct NewChange {
    /// The kind, such as `move`.
    pub kind: &'static str,
    /// The object that is changed. Changes of one object have the same subject.
    pub subject: String,
    /// The number of the message.
    pub number: Option<MessageNumber>,
    /// The location of the message before the change.
    pub before: Option<Place>,
    /// A JSON object with the values that are needed to undo the change.
    pub details: String,
    /// The bytes of the message before the change.
    pub bytes: Option<SealedBytes>,
}

/// Encrypted bytes.
#[derive(Clone, Debug)]
pub struct SealedBytes {
    /// The random id of the key.
    pub key_id: String,
    /// The key, encrypted with the service's key.
    pub sealed_key: Vec<u8>,
    /// The number of bytes before the encryption.
    pub size: i64,
    /// The encrypted chunks.
    pub chunks: Vec<Vec<u8>>,
}

/// What is known after a change.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The id of the recorded change.
    pub id: i64,
    /// The object that was changed.
    pub subject: String,
    /// The number of the message.
    pub number: Option<MessageNumber>,
    /// The location of the message after the change.
    pub after: Option<Place>,
    /// The details.
    pub details: String,
}

/// The limits of the journal.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of changes of a grant.
    pub changes: i64,
    /// Maximum number of bytes of an account.
    pub bytes: i64,
}

/// A recorded change.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct GrantChange {
    /// The id. A later change has a higher id.
    pub id: i64,
    at: i64,
    /// The kind.
    pub kind: String,
    state: String,
    /// The object that was changed.
    pub subject: String,
    uid: Option<i64>,
    before_place: Option<String>,
    after_place: Option<String>,
    undone_place: Option<String>,
    /// The details, a JSON object.
    pub details: String,
    /// The id of the key of the bytes. `None` without bytes.
    pub key_id: Option<String>,
    /// The key of the bytes, encrypted with the service's key.
    pub sealed_key: Option<Vec<u8>>,
}

impl GrantChange {
    /// Returns the time of the change.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.at)
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> State {
        State::named(&self.state)
    }

    /// Returns the number of the message.
    #[must_use]
    pub fn number(&self) -> Option<MessageNumber> {
        self.uid
            .and_then(|uid| u64::try_from(uid).ok())
            .map(MessageNumber)
    }

    /// Returns the location of the message before the change.
    #[must_use]
    pub fn before(&self) -> Option<Place> {
        Place::parse(self.before_place.as_deref()?)
    }

    /// Returns the location of the message after the change.
    #[must_use]
    pub fn after(&self) -> Option<Place> {
        Place::parse(self.after_place.as_deref()?)
    }

    /// Returns the location of the message after the change was undone.
    #[must_use]
    pub fn undone(&self) -> Option<Place> {
        Place::parse(self.undone_place.as_deref()?)
    }
}

/// The repository of the journal.
#[derive(Clone, Debug)]
pub struct GrantChanges {
    pub(crate) db: Db,
}

impl GrantChanges {
    /// Records changes that a grant is about to make. Each change has another subject. Returns the
    /// ids of the changes in the order of `changes`, or `None`, and records nothing, if the grant
    /// or the account would exceed `limits`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The change must not be made in that case.
    pub async fn begin(
        &self,
        (account, grant): (&str, &str),
        changes: &[NewChange],
        limits: Limits,
        now: Timestamp,
    ) -> Result<Option<Vec<i64>>, Error> {
        let mut tx = self.db.begin_locked(account).await?;
        let count: i64 = tx
            .value(COUNT, (account, grant, limits.changes + 1))
            .await?;
        let new = i64::try_from(changes.len()).unwrap_or(i64::MAX);
        if count.saturating_add(new) > limits.changes {
            return Ok(None);
        }
        let bytes = changes.iter().filter_map(|change| change.bytes.as_ref());
        let size = bytes.clone().map(|bytes| bytes.size).sum::<i64>();
        if size > 0 {
            let used: i64 = tx.value(USED, [account]).await?;
            if used.saturating_add(size) > limits.bytes {
                return Ok(None);
            }
        }
        let ids = insert(&mut tx, (account, grant), changes, State::Begun, now).await?;
        for bytes in bytes {
            for (number, chunk) in (0_u32..).zip(&bytes.chunks) {
                tx.execute(INSERT_CHUNK, (&bytes.key_id, number, chunk))
                    .await?;
            }
        }
        tx.commit().await?;
        Ok(Some(ids))
    }

    /// Records that changes were made.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn complete(&self, completions: &[Completion]) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        for one in completions {
            let number = one.number.and_then(|number| i64::try_from(number).ok());
            let after = one.after.as_ref().map(Place::text);
            let row = (one.id, number, &one.subject, after, &one.details);
            tx.execute(COMPLETE, row).await?;
        }
        tx.commit().await
    }

    /// Removes the records of changes that were not made.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn cancel(&self, ids: &[i64]) -> Result<(), Error> {
        for ids in ids.chunks(MAX_PER_STATEMENT) {
            let mut tx = self.db.begin().await?;
            on_tx!(&mut tx, tx => {
                let mut query = QueryBuilder::new("DELETE FROM grant_changes WHERE id IN (0");
                for id in ids {
                    query.push(", ").push_bind(*id);
                }
                query.push(")").build().execute(tx).await.map(drop)
            })?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// Sets the state of changes. `undone` is the location of the message after its changes were
    /// undone.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn set_state(
        &self,
        ids: &[i64],
        state: State,
        undone: Option<&Place>,
    ) -> Result<(), Error> {
        for ids in ids.chunks(MAX_PER_STATEMENT) {
            let mut tx = self.db.begin().await?;
            on_tx!(&mut tx, tx => {
                let mut query = QueryBuilder::new("UPDATE grant_changes SET state = ");
                query.push_bind(state.name().to_owned());
                if let Some(undone) = undone {
                    query.push(", undone_place = ").push_bind(undone.text());
                }
                query.push(" WHERE id IN (0");
                for id in ids {
                    query.push(", ").push_bind(*id);
                }
                query.push(")").build().execute(tx).await.map(drop)
            })?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// Returns up to `limit` changes of a grant with ids below `before`, newest first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(
        &self,
        (account, grant): (&str, &str),
        before: i64,
        limit: u32,
    ) -> Result<Vec<GrantChange>, Error> {
        self.db.all(LIST, (account, grant, before, limit)).await
    }

    /// Returns the ids of the grants with changes of an account. A grant can have ended.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn grants(&self, account: &str) -> Result<Vec<String>, Error> {
        self.db.values(GRANTS, [account]).await
    }

    /// Returns up to `limit` subjects after the subject `after`, in order, that a grant changed
    /// since a time and whose changes are not all undone.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn subjects(
        &self,
        (account, grant): (&str, &str),
        since: Timestamp,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        let parameters = (account, grant, since, after, limit);
        self.db.values(SUBJECTS, parameters).await
    }

    /// Returns the changes of a subject by a grant since a time, newest first. Includes changes
    /// that were undone.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn of_subject(
        &self,
        (account, grant): (&str, &str),
        subject: &str,
        since: Timestamp,
    ) -> Result<Vec<GrantChange>, Error> {
        let parameters = (account, grant, subject, since);
        self.db.all(OF_SUBJECT, parameters).await
    }

    /// Returns an encrypted chunk. Returns `None` if there is no such chunk.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn chunk(&self, key_id: &str, number: u32) -> Result<Option<Vec<u8>>, Error> {
        self.db.optional_value(CHUNK, (key_id, number)).await
    }

    /// Deletes a limited number of changes that are older than [`RETENTION`].
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        let before = now.minus(RETENTION);
        self.db.execute(SWEEP, (before, MAX_SWEPT)).await?;
        Ok(())
    }
}

/// Records a change that is made in the same transaction, which must hold the lock of the account.
pub(crate) async fn record_in(
    tx: &mut Tx,
    owner: (&str, &str),
    change: NewChange,
    now: Timestamp,
) -> Result<(), Error> {
    insert(tx, owner, &[change], State::Done, now).await?;
    Ok(())
}

/// Adds rows. Returns their ids in the order of `changes`.
async fn insert(
    tx: &mut Tx,
    (account, grant): (&str, &str),
    changes: &[NewChange],
    state: State,
    now: Timestamp,
) -> Result<Vec<i64>, Error> {
    let mut ids = Vec::with_capacity(changes.len());
    for changes in changes.chunks(MAX_PER_STATEMENT) {
        let rows: Vec<(i64, String)> = on_tx!(&mut *tx, tx => {
            let mut insert = QueryBuilder::new(INSERT);
            insert.push_values(changes, |mut row, change| {
                let number = change.number.and_then(|number| i64::try_from(number).ok());
                let bytes = change.bytes.as_ref();
                row.push_bind(account.to_owned())
                    .push_bind(grant.to_owned())
                    .push_bind(now.millis())
                    .push_bind(change.kind.to_owned())
                    .push_bind(state.name().to_owned())
                    .push_bind(change.subject.clone())
                    .push_bind(number)
                    .push_bind(change.before.as_ref().map(Place::text))
                    .push_bind(change.details.clone())
                    .push_bind(bytes.map_or(0, |bytes| bytes.size))
                    .push_bind(bytes.map(|bytes| bytes.key_id.clone()))
                    .push_bind(bytes.map(|bytes| bytes.sealed_key.clone()));
            });
            insert.push(" RETURNING id, subject");
            insert.build_query_as().fetch_all(tx).await
        })?;
        // The databases do not define the order of returned rows.
        let by_subject: HashMap<&str, i64> =
            rows.iter().map(|(id, subject)| (&**subject, *id)).collect();
        let found = changes
            .iter()
            .filter_map(|change| by_subject.get(&*change.subject));
        ids.extend(found);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests;
