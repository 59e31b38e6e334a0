//! What modules keep for accounts: which keys and values there can be, and how much. Where it is kept, and that it is each account's and each
//! module's alone, is the directory's.

use crate::caller::Caller;
use crate::clock::Clock;
use crate::directory::aliases::Acting;
use crate::directory::store::{Change, Entry, Expected};
use crate::directory::{self, Directory};

/// The longest key, in bytes.
pub const LONGEST_KEY: usize = 256;

/// The largest value, in bytes.
pub const LARGEST_VALUE: usize = 64 * 1024;

/// Keys that are listed at once.
pub const MOST_KEYS: u32 = 1000;

/// Why something was not read, or not kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There can be no such key, or no such list. The sentence is fit to be shown.
    #[error("{0}")]
    Invalid(&'static str),
    /// The value is larger than one may be, or there is no room for it. The sentence is fit to be shown.
    #[error("{0}")]
    TooLarge(String),
    /// The credential that asked is no longer good.
    #[error("the credential that asked is no longer good")]
    CredentialOver,
    /// The module is not installed any more.
    #[error("the module is not installed any more")]
    Removed,
    /// The directory failed.
    #[error(transparent)]
    Directory(#[from] directory::Error),
}

/// What all modules keep.
#[derive(Clone, Debug)]
pub struct Store {
    directory: Directory,
    clock: Clock,
}

/// Who keeps, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Keeper<'a> {
    /// The module's name.
    pub module: &'a str,
    /// Bytes that it may keep for one account.
    pub quota: u64,
    /// For whose account it keeps.
    pub caller: &'a Caller,
}

impl Store {
    /// That of a directory.
    #[must_use]
    pub fn new(directory: Directory, clock: Clock) -> Self {
        Self { directory, clock }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Directory`].
    pub async fn get(&self, keeper: Keeper<'_>, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let entry = keeper.entry(key)?;
        Ok(self.directory.stored(&keeper.caller.account, entry).await?)
    }

    /// Gives a key a value, or takes it away.
    ///
    /// # Errors
    /// Any of [`Error`]; nothing was changed then.
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

    /// The same where the key has the value that is expected. Whether it had.
    ///
    /// # Errors
    /// Any of [`Error`]; nothing was changed then.
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

    /// The first keys with a prefix beyond `after`, in the order of their bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Directory`].
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
                "prefix and after must be what a key can begin with: at most 256 bytes, without control characters",
            ));
        }
        Ok(self
            .directory
            .stored_keys(&keeper.caller.account, keeper.module, prefix, after, limit)
            .await?)
    }

    /// Whether the key had what was expected.
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
        let acting = Acting::of(keeper.caller, self.clock.now());
        let change = self
            .directory
            .store(acting, entry, expected, value, keeper.quota);
        match change.await? {
            Change::Done => Ok(true),
            Change::Unexpected => Ok(false),
            Change::Full => Err(Error::TooLarge(format!(
                "There is no room for it in the {} bytes that the module {} may keep for an account",
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

/// Whether a key can begin with it.
fn fits(text: &str) -> bool {
    text.len() <= LONGEST_KEY && !text.chars().any(char::is_control)
}
