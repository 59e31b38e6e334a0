//! Storage of modules. Each module has a separate set of keys and values for each account.
//!
//! The table `stores` contains the size of each set in bytes. A transaction that changes a set also
//! updates the size.

use super::Modules;
use crate::aliases::AliasCaller;
use crate::db::Error;

/// Number of bytes that each entry adds to the quota besides its key and its value.
pub const ENTRY_OVERHEAD: usize = 64;

const GET: &str =
    "SELECT value FROM store_entries WHERE account_id = $1 AND module = $2 AND key = $3";
/// $4 is the prefix of the keys. $5 is the first string after all strings with this prefix. $5 is
/// empty if there is no such string.
const LIST: &str = "SELECT key FROM store_entries WHERE account_id = $1 AND module = $2 \
    AND key > $3 AND key >= $4 AND ($5 = '' OR key < $5) ORDER BY key LIMIT $6";
/// Reads the size of a set. Locks the row of the set until the end of the transaction, so that no
/// other transaction can delete the row.
const LOCK: &str = "INSERT INTO stores (account_id, module, used) VALUES ($1, $2, 0) \
    ON CONFLICT (account_id, module) DO UPDATE SET used = stores.used RETURNING used";
const COUNT: &str = "UPDATE stores SET used = used + $3 WHERE account_id = $1 AND module = $2";
const SET: &str = "INSERT INTO store_entries (account_id, module, key, value) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (account_id, module, key) DO UPDATE SET value = EXCLUDED.value";
const DELETE: &str = "DELETE FROM store_entries WHERE account_id = $1 AND module = $2 AND key = $3";
/// Deletes the sets of a module for all accounts. Because of a foreign key, the database also
/// deletes the entries of these sets.
pub(super) const FORGET: &str = "DELETE FROM stores WHERE module = $1";

/// The name of a module, and a key in its storage.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The module's name.
    pub module: &'a str,
    /// The key.
    pub key: &'a str,
}

/// A condition for changing a key. The current value of the key must meet this condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected<'a> {
    /// Any value or no value.
    Any,
    /// The key must have this value. `None` means that the key must have no value.
    Value(Option<&'a [u8]>),
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The change was made. The key has the requested value, or was deleted.
    Done,
    /// The key does not have the expected value.
    Unexpected,
    /// The change would exceed the quota.
    Full,
    /// The caller's credential is no longer valid.
    CredentialOver,
    /// The module is no longer installed.
    Removed,
}

impl Modules {
    /// Returns the value that a module stores for an account under a key. Returns `None` if there
    /// is no value.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn stored(
        &self,
        account_id: &str,
        entry: Entry<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.db
            .optional_value(GET, (account_id, entry.module, entry.key))
            .await
    }

    /// Returns up to `limit` keys that a module stores for an account, in byte order. Includes only
    /// keys after `after` that begin with `prefix`.
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
        self.db
            .values(
                LIST,
                (
                    account_id,
                    module,
                    after,
                    prefix,
                    after_prefix(prefix),
                    limit,
                ),
            )
            .await
    }

    /// Sets the value of a key. Deletes the key if `value` is `None`. Changes nothing if the key
    /// does not have the expected value.
    ///
    /// Also changes nothing if the module's data for the account would exceed `quota` bytes. The
    /// quota does not apply to a change that does not increase the size.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn store(
        &self,
        caller: AliasCaller<'_>,
        entry: Entry<'_>,
        expected: Expected<'_>,
        value: Option<&[u8]>,
        quota: u64,
    ) -> Result<Change, Error> {
        let mut tx = self.db.begin().await?;
        if !caller.lock(&mut tx).await? {
            return Ok(Change::CredentialOver);
        }
        let account_id = caller.account_id;
        let Entry { module, key } = entry;
        // While a module is removed, requests of the module may be in progress. Such a request must
        // not store data any longer.
        if !tx.lock_module_shared(module).await? {
            return Ok(Change::Removed);
        }
        let used: i64 = tx.value(LOCK, (account_id, module)).await?;
        let before: Option<Vec<u8>> = tx.optional_value(GET, (account_id, module, key)).await?;
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
        tx.execute(COUNT, (account_id, module, change)).await?;
        match value {
            Some(value) => tx.execute(SET, (account_id, module, key, value)).await?,
            None => tx.execute(DELETE, (account_id, module, key)).await?,
        };
        tx.commit().await?;
        Ok(Change::Done)
    }
}

/// Returns the number of bytes that an entry adds to the quota. A missing entry adds no bytes.
fn size(key: &str, value: Option<&[u8]>) -> i64 {
    value.map_or(0, |value| {
        i64::try_from(key.len() + value.len() + ENTRY_OVERHEAD).unwrap_or(i64::MAX)
    })
}

/// Returns the first string in byte order after all strings that begin with `prefix`. Returns an
/// empty string if there is no such string.
fn after_prefix(prefix: &str) -> String {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // The order of code points is equal to the byte order in UTF-8.
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return text;
        }
    }
    text
}

#[cfg(test)]
mod tests;
