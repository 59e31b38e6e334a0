//! Storage of modules for accounts: checks keys, values and their sizes. The directory stores the entries, separately for each account and module.

use latchmail_core::caller::Caller;
use latchmail_core::clock::Clock;
use latchmail_directory::Directory;
use latchmail_directory::aliases::AliasCaller;
use latchmail_directory::store::{Change, Entry, Expected};

/// Maximum length of a key, in bytes.
pub const MAX_KEY_BYTES: usize = 256;

/// Maximum size of a value, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Maximum number of keys in one list.
pub const MAX_LISTED_KEYS: u32 = 1000;

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
    /// The module was removed.
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

/// The namespace of keys: one module and one account.
#[derive(Clone, Copy, Debug)]
pub struct Namespace<'a> {
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
    pub async fn get(&self, namespace: Namespace<'_>, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let entry = namespace.entry(key)?;
        Ok(self
            .directory
            .stored(&namespace.caller.account, entry)
            .await?)
    }

    /// Sets the value of a key, or deletes the key if `value` is `None`.
    ///
    /// # Errors
    /// Returns any [`Error`]. Nothing is changed in that case.
    pub async fn set(
        &self,
        namespace: Namespace<'_>,
        key: &str,
        value: Option<&[u8]>,
    ) -> Result<(), Error> {
        self.change(namespace, key, Expected::Any, value)
            .await
            .map(drop)
    }

    /// Sets or deletes a key if its value is `expected`. Returns `true` if the key had this value.
    ///
    /// # Errors
    /// Returns any [`Error`]. Nothing is changed in that case.
    pub async fn compare_and_set(
        &self,
        namespace: Namespace<'_>,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.change(namespace, key, Expected::Value(expected), value)
            .await
    }

    /// Returns the first `limit` keys that begin with `prefix` and follow `after`, in byte order.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] or [`Error::Directory`].
    pub async fn list(
        &self,
        namespace: Namespace<'_>,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        if !(1..=MAX_LISTED_KEYS).contains(&limit) {
            return Err(Error::Invalid("limit must be 1 to 1000"));
        }
        let after = after.unwrap_or_default();
        if !is_key_prefix(prefix) || !is_key_prefix(after) {
            return Err(Error::Invalid(
                "prefix and after must be at most 256 bytes, without control characters",
            ));
        }
        Ok(self
            .directory
            .stored_keys(
                &namespace.caller.account,
                namespace.module,
                prefix,
                after,
                limit,
            )
            .await?)
    }

    /// Sets or deletes a key. Returns `true` if the key had the expected value.
    async fn change(
        &self,
        namespace: Namespace<'_>,
        key: &str,
        expected: Expected<'_>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        let entry = namespace.entry(key)?;
        if value.is_some_and(|value| value.len() > MAX_VALUE_BYTES) {
            return Err(Error::TooLarge(format!(
                "A value is at most {MAX_VALUE_BYTES} bytes"
            )));
        }
        let acting = AliasCaller::new(namespace.caller, self.clock.now());
        let change = self
            .directory
            .store(acting, entry, expected, value, namespace.quota);
        match change.await? {
            Change::Done => Ok(true),
            Change::Unexpected => Ok(false),
            Change::Full => Err(Error::TooLarge(format!(
                "The value does not fit into the {} bytes that the module {} can store for an account",
                namespace.quota, namespace.module
            ))),
            Change::CredentialOver => Err(Error::CredentialOver),
            Change::Removed => Err(Error::Removed),
        }
    }
}

impl<'a> Namespace<'a> {
    /// Checks a key and returns the entry.
    fn entry(&self, key: &'a str) -> Result<Entry<'a>, Error> {
        if key.is_empty() || !is_key_prefix(key) {
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

/// Returns whether `text` can be the start of a key.
fn is_key_prefix(text: &str) -> bool {
    text.len() <= MAX_KEY_BYTES && !text.chars().any(char::is_control)
}
