//! The module's store in the fake host.

use std::collections::BTreeMap;

use super::{FakeHost, Need};
use crate::capability::{Error, Store};

impl FakeHost {
    /// Sets the number of bytes that the module can store for the signed-in account. The default is
    /// 1 MiB.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn set_quota(&self, bytes: usize) {
        self.with_account(|account| account.values.set_quota(bytes));
    }

    /// Returns all keys and values that the module stored for the signed-in account.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[must_use]
    #[track_caller]
    pub fn stored_values(&self) -> BTreeMap<String, Vec<u8>> {
        self.with_account(|account| account.values.all().clone())
    }
}

/// Each account has its own values. The limits and the quota match the real store.
impl Store for FakeHost {
    fn get_value(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.allow(Need::Caller, |account| account.values.get(key))
    }

    fn set_value(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        self.allow(Need::Caller, |account| account.values.set(key, Some(value)))
    }

    fn delete_value(&self, key: &str) -> Result<(), Error> {
        self.allow(Need::Caller, |account| account.values.set(key, None))
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.allow(Need::Caller, |account| {
            account.values.compare_and_set(key, expected, value)
        })
    }

    fn list_keys(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        self.allow(Need::Caller, |account| {
            let after = after.unwrap_or_default();
            account.values.keys(prefix, after, limit)
        })
    }
}
