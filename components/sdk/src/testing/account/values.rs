//! The values of a module for one account.

use std::collections::BTreeMap;

use crate::capability::Error;

/// Maximum length of a key in bytes.
const MAX_KEY: usize = 256;
/// Maximum length of a value in bytes.
const MAX_VALUE: usize = 65_536;
/// Maximum number of keys in a list.
const MAX_KEYS: u32 = 1000;
/// Size of an entry in the quota, in bytes, without its key and its value.
const ENTRY: usize = 64;

#[derive(Debug)]
pub(crate) struct Values {
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
    pub(crate) fn all(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.entries
    }

    pub(crate) fn set_quota(&mut self, bytes: usize) {
        self.quota = bytes;
    }

    pub(crate) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        check_key(key)?;
        Ok(self.entries.get(key).cloned())
    }

    /// Sets the value of a key. Deletes the key if `value` is `None`.
    pub(crate) fn set(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Error> {
        check_key(key)?;
        let Some(value) = value else {
            self.entries.remove(key);
            return Ok(());
        };
        if value.len() > MAX_VALUE {
            return Err(Error::TooLarge(format!(
                "A value is at most {MAX_VALUE} bytes"
            )));
        }
        let size = |key: &str, value: &[u8]| key.len() + value.len() + ENTRY;
        let others = self.entries.iter().filter(|(other, _)| *other != key);
        let used: usize = others.map(|(key, value)| size(key, value)).sum();
        if used + size(key, value) > self.quota {
            return Err(Error::TooLarge(format!(
                "The value would exceed the {} bytes that the module may store for an account",
                self.quota
            )));
        }
        self.entries.insert(key.into(), value.to_vec());
        Ok(())
    }

    /// Sets the value if the current value is `expected`. Otherwise returns `false` and changes
    /// nothing.
    pub(crate) fn compare_and_set(
        &mut self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        check_key(key)?;
        if self.entries.get(key).map(Vec::as_slice) != expected {
            return Ok(false);
        }
        self.set(key, value).map(|()| true)
    }

    /// Returns the keys that start with `prefix` and are greater than `after`, in byte order.
    pub(crate) fn keys(&self, prefix: &str, after: &str, limit: u32) -> Result<Vec<String>, Error> {
        if !(1..=MAX_KEYS).contains(&limit) {
            return Err(Error::Invalid(format!("limit must be 1 to {MAX_KEYS}")));
        }
        let keys = self.entries.keys();
        let found = keys.filter(|key| key.starts_with(prefix) && key.as_str() > after);
        Ok(found.take(limit as usize).cloned().collect())
    }
}

fn check_key(key: &str) -> Result<(), Error> {
    if key.is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
        return Err(Error::Invalid(format!(
            "A key is 1 to {MAX_KEY} bytes without control characters"
        )));
    }
    Ok(())
}
