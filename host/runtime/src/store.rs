//! Storage in which modules keep data for accounts. This module checks keys, values and sizes. The
//! directory, which is the database of the service, stores the entries separately for each account
//! and each module.

use latchmail_core::caller::Caller;
use latchmail_core::clock::Clock;
use latchmail_directory::Directory;
use latchmail_directory::aliases::AliasCaller;
use latchmail_directory::modules::store::{Change, Entry, Expected};

/// Maximum length of a key, in bytes.
pub const MAX_KEY_BYTES: usize = 256;

/// Maximum size of a value, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Maximum number of keys in one list.
pub const MAX_LISTED_KEYS: u32 = 1000;

/// The reason why an operation of the storage failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key or a parameter of the list is invalid. The text can be shown to users.
    #[error("{0}")]
    Invalid(&'static str),
    /// The value is larger than the maximum size, or exceeds the module's quota for the account.
    /// The text can be shown to users.
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

/// The keys of one module for one account.
#[derive(Clone, Copy, Debug)]
pub struct Namespace<'a> {
    /// The name of the module.
    pub module: &'a str,
    /// Maximum number of bytes that the module can store for one account.
    pub quota: u64,
    /// The caller. The data belongs to the caller's account.
    pub caller: &'a Caller,
}

impl Store {
    /// Creates the storage, which uses `directory` as its database.
    #[must_use]
    pub fn new(directory: Directory, clock: Clock) -> Self {
        Self { directory, clock }
    }

    /// Returns the value of a key, or `None` if the key does not exist.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the key is invalid, and [`Error::Directory`] if the directory
    /// fails.
    pub async fn get(&self, namespace: Namespace<'_>, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let entry = namespace.entry(key)?;
        Ok(self
            .directory
            .modules
            .stored(&namespace.caller.account, entry)
            .await?)
    }

    /// Sets the value of a key, or deletes the key if `value` is `None`.
    ///
    /// # Errors
    /// Returns an [`Error`] if the key cannot be changed. In this case, nothing changes.
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

    /// Sets or deletes a key like [`set`](Self::set), but only if the current value is `expected`.
    /// If `expected` is `None`, the key must not exist. Returns `true` if the current value was
    /// `expected`. Returns `false` if nothing changed.
    ///
    /// # Errors
    /// Returns an [`Error`] if the key cannot be changed. In this case, nothing changes.
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

    /// Returns at most `limit` keys that begin with `prefix` and are greater than `after`, in byte
    /// order.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if a parameter is invalid, and [`Error::Directory`] if the
    /// directory fails.
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
                "`prefix` and `after` must be at most 256 bytes without control characters",
            ));
        }
        Ok(self
            .directory
            .modules
            .stored_keys(
                &namespace.caller.account,
                namespace.module,
                prefix,
                after,
                limit,
            )
            .await?)
    }

    /// Sets or deletes a key if its current value matches `expected`. Returns whether the value
    /// matched.
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
            .modules
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
    /// Checks a key, and returns the entry of the directory for it.
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

/// Returns whether `text` can be the start of a valid key.
fn is_key_prefix(text: &str) -> bool {
    text.len() <= MAX_KEY_BYTES && !text.chars().any(char::is_control)
}
