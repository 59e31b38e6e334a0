//! The threads of messages that were merged with other threads. The search index computes them. The directory stores them, so that a listing needs no search index.

use std::collections::HashMap;

use sqlx::QueryBuilder;

use super::{MAX_PER_STATEMENT, number};
use crate::db::{Error, on, on_tx};
use crate::{Db, Directory};

const ANY: &str = "SELECT 1 FROM merged_threads WHERE account_id = $1 LIMIT 1";
const ALL: &str = "SELECT uid, thread FROM merged_threads WHERE account_id = $1";
/// Callers append numbers and `)`.
const SOME: &str = "SELECT uid, thread FROM merged_threads WHERE account_id = ";
const REMOVE: &str = "DELETE FROM merged_threads WHERE account_id = $1 AND uid = $2";
/// Inserts nothing if the message was removed.
const SET: &str = "INSERT INTO merged_threads (account_id, uid, thread) \
     SELECT account_id, uid, $3 FROM messages WHERE account_id = $1 AND uid = $2 \
     ON CONFLICT (account_id, uid) DO UPDATE SET thread = excluded.thread";

/// Returns `true` if the mailbox has merged threads.
///
/// # Errors
/// Returns [`Error`] if the database fails.
pub async fn has_merged_threads(directory: &Directory, account: &str) -> Result<bool, Error> {
    let any: Option<()> = directory.lookup.one(ANY, &[account.into()]).await?;
    Ok(any.is_some())
}

/// Returns the merged threads of messages, by number. Omits messages whose thread was not merged.
///
/// # Errors
/// Returns [`Error`] if the database fails.
pub async fn merged_threads(
    db: &Db,
    account: &str,
    uids: &[u64],
) -> Result<HashMap<u64, u64>, Error> {
    let mut threads = HashMap::new();
    for uids in uids.chunks(MAX_PER_STATEMENT) {
        let rows: Vec<(i64, i64)> = on!(db, pool => {
            let mut query = QueryBuilder::new(SOME);
            query.push_bind(account.to_owned()).push(" AND uid IN (0");
            for uid in uids.iter().filter_map(|uid| i64::try_from(*uid).ok()) {
                query.push(", ").push_bind(uid);
            }
            query.push(")").build_query_as().fetch_all(pool).await
        })?;
        threads.extend(
            rows.into_iter()
                .map(|(uid, thread)| (number(uid), thread.cast_unsigned())),
        );
    }
    Ok(threads)
}

/// Replaces all merged threads of a mailbox. `threads` contains the number and the thread of each message.
///
/// # Errors
/// Returns [`Error`] if the database fails. Nothing is changed in that case.
pub async fn set_merged_threads(
    db: &Db,
    account: &str,
    threads: Vec<(u64, u64)>,
) -> Result<(), Error> {
    let threads: HashMap<u64, u64> = threads.into_iter().collect();
    let mut tx = db.begin().await?;
    let stored: Vec<(i64, i64)> =
        on_tx!(&mut tx, tx => sqlx::query_as(ALL).bind(account).fetch_all(tx).await)?;
    let stored: HashMap<u64, u64> = stored
        .into_iter()
        .map(|(uid, thread)| (number(uid), thread.cast_unsigned()))
        .collect();
    for uid in stored.keys().filter(|uid| !threads.contains_key(uid)) {
        on_tx!(&mut tx, tx => sqlx::query(REMOVE)
            .bind(account)
            .bind(uid.cast_signed())
            .execute(tx)
            .await
            .map(drop))?;
    }
    for (uid, thread) in &threads {
        if stored.get(uid) == Some(thread) {
            continue;
        }
        on_tx!(&mut tx, tx => sqlx::query(SET)
            .bind(account)
            .bind(uid.cast_signed())
            .bind(thread.cast_signed())
            .execute(tx)
            .await
            .map(drop))?;
    }
    tx.commit().await
}
