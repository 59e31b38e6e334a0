//! Storage of modules for accounts. Validates keys, values and their sizes. The directory stores the entries, separately for each account and each module.

use latchmail_core::caller::Caller;
use latchmail_core::clock::Clock;
use latchmail_directory::Directory;
use latchmail_directory::aliases::AliasCaller;
use latchmail_directory::store::{Change, Entry, Expected};

/// Maximum length of a key, in bytes.
pub const LONGEST_KEY: usize = 256;

/// Maximum size of a value, in bytes.
pub const LARGEST_VALUE: usize = 64 * 1024;

/// Maximum number of keys in one list.
pub const MOST_KEYS: u32 = 1000;

/// The reason why a value was not read or not stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key or the parameters of the list are not valid. The message can be shown to users.
    #[error("{0}")]
    Invalid(&'static str),
    /// The value is larger than the maximum, or the quota has no space for it. The message can be shown to users.
    #[error("{0}")]
    TooLarge(String),
    /// The caller's credential expired or was revoked.
    #[error("credential expired or revoked")]
    CredentialOver,
    /// The module is no longer installed.
    #[error("the module is no longer installed")]
    Removed,
    /// The directory failed.
    #[error(transparent)]
    Directory(#[from] latchmail_directory::Error),
}

/// The storage of all modules.
#[derive(Clone, Debug)]
pub struct Store {
    directory: Directory,
    clock: Clock,
}

/// A module and the account for which it stores data.
#[derive(Clone, Copy, Debug)]
pub struct Keeper<'a> {
    /// The module's name.
    pub module: &'a str,
    /// Maximum number of bytes that the module may store for one account.
    pub quota: u64,
    /// The caller whose account the module stores data for.
    pub caller: &'a Caller,
}

impl Store {
    /// Creates the storage of a directory.
    #[must_use]
    pub fn new(directory: Directory, clock: Clock) -> Self {
        Self { directory, clock }
    }

    /// Returns the value of a key, or `None` if the key has no value.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] or [`Error::Directory`].
    pub async fn get(&self, keeper: Keeper<'_>, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let entry = keeper.entry(key)?;
        Ok(self.directory.stored(&keeper.caller.account, entry).await?)
    }

    /// Sets the value of a key, or deletes the key if `value` is `None`.
    ///
    /// # Errors
    /// Returns any [`Error`]. Nothing is changed in that case.
    pub async fn set(
        &self,
        keeper: Keeper<'_>,
        key: &str,
        value: Option<&[u8]>,
    ) -> Result<(), Error> {
        self.change(keeper, key, Expected::Any, value)
            .await
            .map(drop)
    }

    /// Sets or deletes a key if its value is `expected`. Returns `true` if the key had this value.
    ///
    /// # Errors
    /// Returns any [`Error`]. Nothing is changed in that case.
    pub async fn compare_and_set(
        &self,
        keeper: Keeper<'_>,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.change(keeper, key, Expected::Value(expected), value)
            .await
    }

    /// Returns the first `limit` keys that begin with `prefix` and follow `after`, in byte order.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] or [`Error::Directory`].
    pub async fn list(
        &self,
        keeper: Keeper<'_>,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        if !(1..=MOST_KEYS).contains(&limit) {
            return Err(Error::Invalid("limit must be 1 to 1000"));
        }
        let after = after.unwrap_or_default();
        if !fits(prefix) || !fits(after) {
            return Err(Error::Invalid(
                "prefix and after must be at most 256 bytes, without control characters",
            ));
        }
        Ok(self
            .directory
            .stored_keys(&keeper.caller.account, keeper.module, prefix, after, limit)
            .await?)
    }

    /// Returns `true` if the key had the expected value.
    async fn change(
        &self,
        keeper: Keeper<'_>,
        key: &str,
        expected: Expected<'_>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        let entry = keeper.entry(key)?;
        if value.is_some_and(|value| value.len() > LARGEST_VALUE) {
            return Err(Error::TooLarge(format!(
                "A value is at most {LARGEST_VALUE} bytes"
            )));
        }
        let acting = AliasCaller::new(keeper.caller, self.clock.now());
        let change = self
            .directory
            .store(acting, entry, expected, value, keeper.quota);
        match change.await? {
            Change::Done => Ok(true),
            Change::Unexpected => Ok(false),
            Change::Full => Err(Error::TooLarge(format!(
                "The value does not fit into the {} bytes that the module {} can store for an account",
                keeper.quota, keeper.module
            ))),
            Change::CredentialOver => Err(Error::CredentialOver),
            Change::Removed => Err(Error::Removed),
        }
    }
}

impl<'a> Keeper<'a> {
    fn entry(&self, key: &'a str) -> Result<Entry<'a>, Error> {
        if key.is_empty() || !fits(key) {
            return Err(Error::Invalid(
                "A key must be 1 to 256 bytes without control characters",
            ));
        }
        Ok(Entry {
            module: self.module,
            key,
        })
    }
}

/// Returns `true` if a key can begin with `text`.
fn fits(text: &str) -> bool {
    text.len() <= LONGEST_KEY && !text.chars().any(char::is_control)
}
