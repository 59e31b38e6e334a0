//! The service's own numbers for messages, kept beside each message's place: folder, UIDVALIDITY, IMAP UID.
//!
//! One sequence per mailbox; a number is given once. A folder whose UIDVALIDITY changed is a folder of new places: the old rows
//! stay, for whoever comes to find those messages again by their identity.

use std::collections::HashMap;
use std::fmt::Write as _;

use sqlx::QueryBuilder;

use super::identity::Identity;
use super::imap::{Opened, Spot};
use crate::directory::Db;
use crate::directory::db::{Error, Tx, on, on_tx};

/// One row at least where the folder is known, one for each of its messages that is. Further conditions are appended.
const KNOWN: &str = "SELECT f.id, f.uid_validity, m.imap_uid, m.uid FROM folders f \
     LEFT JOIN messages m ON m.folder_id = f.id AND m.uid_validity = ";
const PLACE: &str = "SELECT f.path, m.uid_validity, m.imap_uid FROM messages m \
     JOIN folders f ON f.id = m.folder_id WHERE m.account_id = $1 AND m.uid = $2";
const ADD_FOLDER: &str = "INSERT INTO folders (id, account_id, path, uid_validity, uid_next) VALUES ($1, $2, $3, $4, $5)";
const RENEW_FOLDER: &str = "UPDATE folders SET uid_validity = $2, uid_next = $3 WHERE id = $1";
/// Answers the number after the last that is taken by this.
const TAKE_NUMBERS: &str = "INSERT INTO mailboxes (account_id, next_uid) VALUES ($1, 1 + CAST($2 AS BIGINT)) \
     ON CONFLICT (account_id) DO UPDATE SET next_uid = mailboxes.next_uid + CAST($2 AS BIGINT) RETURNING next_uid";
const ADD_MESSAGES: &str =
    "INSERT INTO messages (account_id, uid, folder_id, uid_validity, imap_uid, identity) ";

/// Messages in one statement: both databases bound the number of its parameters.
const AT_ONCE: usize = 500;

/// Where a message is, as last seen.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(super) struct Place {
    pub(super) path: String,
    uid_validity: i64,
    imap_uid: i64,
}

impl Place {
    pub(super) fn spot(&self) -> Spot<'_> {
        Spot {
            path: &self.path,
            uid_validity: u32::try_from(self.uid_validity).unwrap_or(0),
            uid: u32::try_from(self.imap_uid).unwrap_or(0),
        }
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    uid_validity: i64,
    imap_uid: Option<i64>,
    uid: Option<i64>,
}

/// What the index holds of a folder and of some of its messages.
#[derive(Default)]
struct Known {
    /// The folder's id and the UIDVALIDITY under which it was last seen.
    folder: Option<(String, i64)>,
    numbers: HashMap<u32, u64>,
}

/// The service's numbers of `messages` (IMAP UID and identity) of a folder, by IMAP UID. Those without one get one, in the order
/// of their IMAP UIDs. The folder is noted where it is seen for the first time.
pub(super) async fn numbers(
    db: &Db,
    account: &str,
    path: &str,
    opened: Opened,
    messages: &[(u32, Identity)],
) -> Result<HashMap<u32, u64>, Error> {
    let known = on!(db, pool => known(account, path, opened, messages).build_query_as().fetch_all(pool).await)?;
    let known = Known::of(known);
    if known.lacks(opened, messages) {
        return allot(db, account, path, opened, messages).await;
    }
    Ok(known.numbers)
}

/// Where the message with the service's number `uid` is; none where that number was never given in this mailbox.
pub(super) async fn place(db: &Db, account: &str, uid: u64) -> Result<Option<Place>, Error> {
    let Ok(uid) = i64::try_from(uid) else {
        return Ok(None);
    };
    Ok(on!(db, pool => sqlx::query_as(PLACE).bind(account).bind(uid).fetch_optional(pool).await)?)
}

async fn allot(
    db: &Db,
    account: &str,
    path: &str,
    opened: Opened,
    messages: &[(u32, Identity)],
) -> Result<HashMap<u32, u64>, Error> {
    let mut tx = db.begin().await?;
    tx.lock_account(account).await?;
    // Another may have been here in the meantime.
    let known = on_tx!(&mut tx, tx => known(account, path, opened, messages).build_query_as().fetch_all(tx).await)?;
    let mut known = Known::of(known);
    let folder = noted(&mut tx, account, path, opened, known.folder.take()).await?;
    let mut new: Vec<(u32, Identity)> = messages
        .iter()
        .filter(|(imap_uid, _)| !known.numbers.contains_key(imap_uid))
        .copied()
        .collect();
    new.sort_unstable_by_key(|(imap_uid, _)| *imap_uid);
    new.dedup_by_key(|(imap_uid, _)| *imap_uid);
    if !new.is_empty() {
        let count = i64::try_from(new.len()).unwrap_or(i64::MAX);
        let next: i64 = on_tx!(&mut tx, tx => sqlx::query_scalar(TAKE_NUMBERS).bind(account).bind(count).fetch_one(tx).await)?;
        let rows: Vec<_> = (next - count..).zip(new).collect();
        for rows in rows.chunks(AT_ONCE) {
            on_tx!(&mut tx, tx => {
                let mut insert = QueryBuilder::new(ADD_MESSAGES);
                insert.push_values(rows, |mut row, (uid, (imap_uid, identity))| {
                    row.push_bind(account.to_owned())
                        .push_bind(*uid)
                        .push_bind(folder.clone())
                        .push_bind(i64::from(opened.uid_validity))
                        .push_bind(i64::from(*imap_uid))
                        .push_bind(identity.to_vec());
                });
                insert.build().execute(tx).await.map(drop)
            })?;
        }
        known.numbers.extend(
            rows.iter()
                .map(|(uid, (imap_uid, _))| (*imap_uid, u64::try_from(*uid).unwrap_or(0))),
        );
    }
    tx.commit().await?;
    Ok(known.numbers)
}

/// The folder's id, once it is noted as it was first seen under its UIDVALIDITY.
async fn noted(
    tx: &mut Tx,
    account: &str,
    path: &str,
    opened: Opened,
    known: Option<(String, i64)>,
) -> Result<String, Error> {
    let validity = i64::from(opened.uid_validity);
    let next = i64::from(opened.uid_next);
    if let Some((id, seen)) = known {
        if seen != validity {
            on_tx!(tx, tx => sqlx::query(RENEW_FOLDER).bind(&id).bind(validity).bind(next).execute(tx).await.map(drop))?;
        }
        return Ok(id);
    }
    let id = fresh_id()?;
    on_tx!(tx, tx => sqlx::query(ADD_FOLDER)
        .bind(&id)
        .bind(account)
        .bind(path)
        .bind(validity)
        .bind(next)
        .execute(tx)
        .await
        .map(drop))?;
    Ok(id)
}

fn fresh_id() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::Unusable(format!("the system gives no randomness: {e}")))?;
    Ok(bytes.iter().fold(String::new(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    }))
}

fn known<D>(
    account: &str,
    path: &str,
    opened: Opened,
    messages: &[(u32, Identity)],
) -> QueryBuilder<D>
where
    D: sqlx::Database,
    String: sqlx::Type<D> + for<'q> sqlx::Encode<'q, D>,
    i64: sqlx::Type<D> + for<'q> sqlx::Encode<'q, D>,
{
    let mut query = QueryBuilder::new(KNOWN);
    query.push_bind(i64::from(opened.uid_validity));
    query.push(" AND m.imap_uid IN (");
    // A list may not be empty; no message has the UID 0.
    query.push("0");
    for (imap_uid, _) in messages {
        query.push(", ").push_bind(i64::from(*imap_uid));
    }
    query
        .push(") WHERE f.account_id = ")
        .push_bind(account.to_owned());
    query.push(" AND f.path = ").push_bind(path.to_owned());
    query
}

impl Known {
    fn of(rows: Vec<Row>) -> Self {
        let mut known = Self::default();
        for row in rows {
            if let (Some(imap_uid), Some(uid)) = (row.imap_uid, row.uid)
                && let (Ok(imap_uid), Ok(uid)) = (u32::try_from(imap_uid), u64::try_from(uid))
            {
                known.numbers.insert(imap_uid, uid);
            }
            known.folder = Some((row.id, row.uid_validity));
        }
        known
    }

    fn lacks(&self, opened: Opened, messages: &[(u32, Identity)]) -> bool {
        let seen = self
            .folder
            .as_ref()
            .is_some_and(|(_, validity)| *validity == i64::from(opened.uid_validity));
        !seen
            || messages
                .iter()
                .any(|(imap_uid, _)| !self.numbers.contains_key(imap_uid))
    }
}

#[cfg(test)]
mod tests;
