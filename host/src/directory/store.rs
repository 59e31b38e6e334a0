//! What modules keep for accounts: keys and values, one set of them for each module and account.
//!
//! How much is kept is counted in the row that the entries of a set hang on, in the transaction that changes them.

use super::aliases::Acting;
use super::db::{Tx, on, on_tx};
use super::{Directory, Error};

/// What an entry counts beside its key and its value: what it costs the database to have one.
pub const ENTRY: usize = 64;

const GET: &str =
    "SELECT value FROM store_entries WHERE account_id = $1 AND module = $2 AND key = $3";
/// $5 is the first key beyond those with the prefix, empty where there is none.
const LIST: &str = "SELECT key FROM store_entries WHERE account_id = $1 AND module = $2 \
    AND key > $3 AND key >= $4 AND ($5 = '' OR key < $5) ORDER BY key LIMIT $6";
/// What is counted; held until the end of the transaction, so that nobody forgets it meanwhile.
const HOLD: &str = "INSERT INTO stores (account_id, module, used) VALUES ($1, $2, 0) \
    ON CONFLICT (account_id, module) DO UPDATE SET used = stores.used RETURNING used";
const COUNT: &str = "UPDATE stores SET used = used + $3 WHERE account_id = $1 AND module = $2";
const SET: &str = "INSERT INTO store_entries (account_id, module, key, value) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (account_id, module, key) DO UPDATE SET value = EXCLUDED.value";
const DELETE: &str = "DELETE FROM store_entries WHERE account_id = $1 AND module = $2 AND key = $3";
/// The entries hang on it.
const FORGET: &str = "DELETE FROM stores WHERE module = $1";

/// One key of what a module keeps for an account.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The module's name.
    pub module: &'a str,
    /// The key.
    pub key: &'a str,
}

/// What a key has to have before it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected<'a> {
    /// Anything.
    Any,
    /// This value, or none.
    Value(Option<&'a [u8]>),
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has the value, or none, that it was to have.
    Done,
    /// The key has not what was expected.
    Unexpected,
    /// There is no room for it in the quota.
    Full,
    /// The credential that asked is no longer good.
    CredentialOver,
    /// The module is not installed any more.
    Removed,
}

impl Directory {
    /// The value that a module keeps for an account under a key.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn stored(
        &self,
        account_id: &str,
        entry: Entry<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_scalar(GET)
            .bind(account_id)
            .bind(entry.module)
            .bind(entry.key)
            .fetch_optional(pool).await)?)
    }

    /// The first keys that a module keeps for an account beyond `after` and that begin with `prefix`, in the order of their bytes.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn stored_keys(
        &self,
        account_id: &str,
        module: &str,
        prefix: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_scalar(LIST)
            .bind(account_id)
            .bind(module)
            .bind(after)
            .bind(prefix)
            .bind(beyond(prefix))
            .bind(i64::from(limit))
            .fetch_all(pool).await)?)
    }

    /// Gives a key a value, or takes it away, provided that it has what was expected and that all that the module keeps for the account stays
    /// within `quota` bytes. What makes it less is never over the quota.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn store(
        &self,
        acting: Acting<'_>,
        entry: Entry<'_>,
        expected: Expected<'_>,
        value: Option<&[u8]>,
        quota: u64,
    ) -> Result<Change, Error> {
        let mut tx = self.db.begin().await?;
        if !acting.lock(&mut tx).await? {
            return Ok(Change::CredentialOver);
        }
        let account_id = acting.account_id;
        let Entry { module, key } = entry;
        // A request that is under way while its module is removed must not leave anything behind it.
        if !tx.keep_module(module).await? {
            return Ok(Change::Removed);
        }
        let used: i64 = on_tx!(&mut tx, db => sqlx::query_scalar(HOLD)
            .bind(account_id)
            .bind(module)
            .fetch_one(db).await)?;
        let before: Option<Vec<u8>> = on_tx!(&mut tx, db => sqlx::query_scalar(GET)
            .bind(account_id)
            .bind(module)
            .bind(key)
            .fetch_optional(db).await)?;
        let before = before.as_deref();
        if let Expected::Value(expected) = expected
            && before != expected
        {
            return Ok(Change::Unexpected);
        }
        if before == value {
            return Ok(Change::Done);
        }
        let change = size(key, value) - size(key, before);
        if change > 0 && used + change > i64::try_from(quota).unwrap_or(i64::MAX) {
            return Ok(Change::Full);
        }
        on_tx!(&mut tx, db => sqlx::query(COUNT)
            .bind(account_id)
            .bind(module)
            .bind(change)
            .execute(db).await.map(drop))?;
        match value {
            Some(value) => on_tx!(&mut tx, db => sqlx::query(SET)
                .bind(account_id)
                .bind(module)
                .bind(key)
                .bind(value)
                .execute(db).await.map(drop))?,
            None => on_tx!(&mut tx, db => sqlx::query(DELETE)
                .bind(account_id)
                .bind(module)
                .bind(key)
                .execute(db).await.map(drop))?,
        }
        tx.commit().await?;
        Ok(Change::Done)
    }
}

/// Forgets all that a module ever kept, for whichever account. Answers for how many accounts it kept something.
pub(super) async fn forget(tx: &mut Tx, module: &str) -> Result<u64, Error> {
    Ok(on_tx!(tx, db => sqlx::query(FORGET)
        .bind(module)
        .execute(db).await.map(|done| done.rows_affected()))?)
}

/// What an entry counts towards the quota; one that is not there counts nothing.
fn size(key: &str, value: Option<&[u8]>) -> i64 {
    value.map_or(0, |value| {
        i64::try_from(key.len() + value.len() + ENTRY).unwrap_or(i64::MAX)
    })
}

/// The first text, in the order of bytes, that is beyond all that begin with `prefix`; empty where nothing is.
fn beyond(prefix: &str) -> String {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // The order of code points is that of their UTF-8.
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return text;
        }
    }
    text
}

#[cfg(test)]
mod tests;
