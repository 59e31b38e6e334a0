//! The module's store in the fake host.

use std::collections::BTreeMap;

use super::{FakeHost, Need};
use crate::capability::{Error, Store};
use latchmail_shape::codes;

/// Maximum length of a key in bytes.
const MAX_KEY: usize = 256;
/// Maximum length of a value in bytes.
const MAX_VALUE: usize = 65_536;
/// Maximum number of keys in a list.
const MAX_KEYS: u32 = 1000;
/// Number of bytes that each entry uses of the quota, in addition to its key and its value.
const ENTRY: usize = 64;

/// The values of the module for one account.
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

impl FakeHost {
    /// Sets the number of bytes that the module can store for the signed-in account. The default is
    /// 1 MiB.
    #[track_caller]
    pub fn set_quota(&self, bytes: usize) {
        self.with_account(|account| account.values.quota = bytes);
    }

    /// Returns all keys and values that the module stored for the signed-in account.
    #[must_use]
    #[track_caller]
    pub fn stored_values(&self) -> BTreeMap<String, Vec<u8>> {
        self.with_account(|account| account.values.entries.clone())
    }
}

/// Calls `act` with the caller's values. Fails if the key is not valid.
fn with_values<T>(
    host: &FakeHost,
    key: &str,
    act: impl FnOnce(&mut Values) -> Result<T, Error>,
) -> Result<T, Error> {
    host.allow(Need::Caller, |account| {
        if key.is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
            return Err(Error::invalid(
                codes::STORE_KEY_INVALID,
                format!("A key is 1 to {MAX_KEY} bytes without control characters"),
            ));
        }
        act(&mut account.values)
    })
}

impl Values {
    /// Sets the value of a key. Deletes the key if `value` is `None`.
    fn set(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Error> {
        let Some(value) = value else {
            self.entries.remove(key);
            return Ok(());
        };
        if value.len() > MAX_VALUE {
            let text = format!("A value is at most {MAX_VALUE} bytes");
            return Err(Error::too_large(codes::STORE_VALUE_TOO_LARGE, text));
        }
        let size = |key: &str, value: &[u8]| key.len() + value.len() + ENTRY;
        let others = self.entries.iter().filter(|(other, _)| *other != key);
        let used: usize = others.map(|(key, value)| size(key, value)).sum();
        if used + size(key, value) > self.quota {
            return Err(Error::too_large(
                codes::STORE_FULL,
                format!(
                    "The value would exceed the {} bytes that the module may store for an account",
                    self.quota
                ),
            ));
        }
        self.entries.insert(key.into(), value.to_vec());
        Ok(())
    }
}

/// Each account has its own values.
impl Store for FakeHost {
    fn get_value(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        with_values(self, key, |values| Ok(values.entries.get(key).cloned()))
    }

    fn set_value(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        with_values(self, key, |values| values.set(key, Some(value)))
    }

    fn delete_value(&self, key: &str) -> Result<(), Error> {
        with_values(self, key, |values| values.set(key, None))
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        with_values(self, key, |values| {
            if values.entries.get(key).map(Vec::as_slice) != expected {
                return Ok(false);
            }
            values.set(key, value).map(|()| true)
        })
    }

    fn list_keys(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        self.allow(Need::Caller, |account| {
            if !(1..=MAX_KEYS).contains(&limit) {
                return Err(Error::invalid(
                    codes::INVALID_PAGING_PARAMETERS,
                    format!("limit must be 1 to {MAX_KEYS}"),
                ));
            }
            let after = after.unwrap_or_default();
            let keys = account.values.entries.keys();
            let found = keys.filter(|key| key.starts_with(prefix) && key.as_str() > after);
            Ok(found.take(limit as usize).cloned().collect())
        })
    }
}
