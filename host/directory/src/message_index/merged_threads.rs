//! The thread ids of messages whose thread was merged with another thread. The search index
//! computes the merged threads. The database stores a copy, so that listing messages needs no
//! search index.

use std::collections::HashMap;

use latchmail_core::message_number::MessageNumber;
use sqlx::QueryBuilder;

use super::{MAX_PER_STATEMENT, MessageIndex, number};
use crate::db::{Error, on, on_tx};

const ANY: &str = "SELECT 1 FROM merged_threads WHERE account_id = $1 LIMIT 1";
const ALL: &str = "SELECT uid, thread FROM merged_threads WHERE account_id = $1";
/// Callers append the account, a condition with message numbers, and `)`.
const SOME: &str = "SELECT uid, thread FROM merged_threads WHERE account_id = ";
/// Callers append the account, a condition with message numbers, and `)`.
const REMOVE: &str = "DELETE FROM merged_threads WHERE account_id = ";
/// Inserts nothing for a removed message. Callers append pairs of a message number and a thread id,
/// and then `SET_IN`, the account and `ON_CONFLICT`.
const SET: &str = "WITH added (uid, thread) AS (VALUES (0, 0)";
const SET_IN: &str = ") INSERT INTO merged_threads (account_id, uid, thread) \
     SELECT m.account_id, m.uid, added.thread FROM added JOIN messages m ON m.uid = added.uid \
     WHERE m.account_id = ";
const ON_CONFLICT: &str = " ON CONFLICT (account_id, uid) DO UPDATE SET thread = excluded.thread";

impl MessageIndex {
    /// Returns `true` if the mailbox has merged threads.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn has_merged_threads(&self, account: &str) -> Result<bool, Error> {
        let any: Option<()> = self.lookup.one(ANY, &[account.into()]).await?;
        Ok(any.is_some())
    }

    /// Returns the ids of the merged threads of messages, by message number. Omits messages whose
    /// thread was not merged.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn merged_threads(
        &self,
        account: &str,
        numbers: &[MessageNumber],
    ) -> Result<HashMap<MessageNumber, u64>, Error> {
        let mut threads = HashMap::new();
        for numbers in numbers.chunks(MAX_PER_STATEMENT) {
            let rows: Vec<(i64, i64)> = on!(&self.db, pool => {
                let mut query = QueryBuilder::new(SOME);
                query.push_bind(account.to_owned()).push(" AND uid IN (0");
                for uid in numbers.iter().filter_map(|number| i64::try_from(*number).ok()) {
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

    /// Replaces all merged threads of a mailbox. `threads` contains the number and the thread id of
    /// each message.
    ///
    /// Writes in batches, because on SQLite all other writers wait until a transaction ends.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Some threads can be changed in that case.
    pub async fn set_merged_threads(
        &self,
        account: &str,
        threads: Vec<(MessageNumber, u64)>,
    ) -> Result<(), Error> {
        let stored: Vec<(i64, i64)> =
            on!(&self.db, pool => sqlx::query_as(ALL).bind(account).fetch_all(pool).await)?;
        let mut stored: HashMap<MessageNumber, u64> = stored
            .into_iter()
            .map(|(uid, thread)| (number(uid), thread.cast_unsigned()))
            .collect();
        let mut changed: Vec<(i64, i64)> = Vec::new();
        for (number, thread) in threads {
            if stored.remove(&number) != Some(thread) {
                changed.push((number.0.cast_signed(), thread.cast_signed()));
            }
        }
        let removed: Vec<i64> = stored
            .into_keys()
            .map(|number| number.0.cast_signed())
            .collect();
        for uids in removed.chunks(MAX_PER_STATEMENT) {
            let mut tx = self.db.begin().await?;
            on_tx!(&mut tx, tx => {
                let mut query = QueryBuilder::new(REMOVE);
                query.push_bind(account.to_owned()).push(" AND uid IN (0");
                for uid in uids {
                    query.push(", ").push_bind(*uid);
                }
                query.push(")").build().execute(tx).await.map(drop)
            })?;
            tx.commit().await?;
        }
        for threads in changed.chunks(MAX_PER_STATEMENT) {
            let mut tx = self.db.begin().await?;
            on_tx!(&mut tx, tx => {
                let mut query = QueryBuilder::new(SET);
                for (uid, thread) in threads {
                    query.push(", (").push_bind(*uid).push(", ").push_bind(*thread).push(")");
                }
                query.push(SET_IN).push_bind(account.to_owned()).push(ON_CONFLICT);
                query.build().execute(tx).await.map(drop)
            })?;
            tx.commit().await?;
        }
        Ok(())
    }
}
