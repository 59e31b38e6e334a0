//! The module's store, in memory.

use std::collections::BTreeMap;

use super::host::{FakeHost, Need};
use crate::capability::{Error, Store};

/// Maximum length of a key and of a value in bytes, and maximum number of keys in a list.
const LONGEST_KEY: usize = 256;
const LARGEST_VALUE: usize = 65_536;
const MOST_KEYS: u32 = 1000;

/// Bytes that each entry counts towards the quota in addition to its key and value.
const ENTRY: usize = 64;

/// The values that the module stores for one account.
#[derive(Debug)]
pub(super) struct Values {
    entries: BTreeMap<String, Vec<u8>>,
    quota: usize,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            quota: 1024 * 1024,
        }
    }
}

impl Values {
    fn change(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Error> {
        let Some(value) = value else {
            self.entries.remove(key);
            return Ok(());
        };
        if value.len() > LARGEST_VALUE {
            return Err(Error::TooLarge(format!(
                "A value is at most {LARGEST_VALUE} bytes"
            )));
        }
        let counts = |key: &String, value: &[u8]| key.len() + value.len() + ENTRY;
        let others = self.entries.iter().filter(|(other, _)| *other != key);
        let used: usize = others.map(|(key, value)| counts(key, value)).sum();
        if used + counts(&key.to_owned(), value) > self.quota {
            return Err(Error::TooLarge(format!(
                "There is no room for it in the {} bytes that the module may keep for an account",
                self.quota
            )));
        }
        self.entries.insert(key.into(), value.to_vec());
        Ok(())
    }
}

fn fits(key: &str) -> Result<(), Error> {
    if key.is_empty() || key.len() > LONGEST_KEY || key.chars().any(char::is_control) {
        return Err(Error::Invalid(format!(
            "A key is 1 to {LONGEST_KEY} bytes without control characters"
        )));
    }
    Ok(())
}

impl FakeHost {
    /// Sets the number of bytes that the module can store for the signed-in account. The default is 1 MiB.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn set_quota(&self, bytes: usize) {
        self.with_account(|account| account.values.quota = bytes);
    }

    /// Returns all keys and values of the signed-in account.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[must_use]
    #[track_caller]
    pub fn kept(&self) -> BTreeMap<String, Vec<u8>> {
        self.with_account(|account| account.values.entries.clone())
    }
}

/// Each account has its own values. The limits and the quota are those of the real store.
impl Store for FakeHost {
    fn get_value(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.allow(Need::Caller, |account| {
            fits(key)?;
            Ok(account.values.entries.get(key).cloned())
        })
    }

    fn set_value(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        self.allow(Need::Caller, |account| {
            fits(key)?;
            account.values.change(key, Some(value))
        })
    }

    fn delete_value(&self, key: &str) -> Result<(), Error> {
        self.allow(Need::Caller, |account| {
            fits(key)?;
            account.values.change(key, None)
        })
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.allow(Need::Caller, |account| {
            fits(key)?;
            let values = &mut account.values;
            if values.entries.get(key).map(Vec::as_slice) != expected {
                return Ok(false);
            }
            values.change(key, value).map(|()| true)
        })
    }

    fn list_keys(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        self.allow(Need::Caller, |account| {
            if !(1..=MOST_KEYS).contains(&limit) {
                return Err(Error::Invalid(format!("limit must be 1 to {MOST_KEYS}")));
            }
            let after = after.unwrap_or_default();
            let keys = account.values.entries.keys();
            let found = keys.filter(|key| key.starts_with(prefix) && key.as_str() > after);
            Ok(found.take(limit as usize).cloned().collect())
        })
    }
}
