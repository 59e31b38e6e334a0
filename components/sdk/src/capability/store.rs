//! `latchmail:host/store`: keys and values for the caller's account.

use super::{Error, Host};
use crate::bindings::latchmail::host::store;

/// Keys and values that the module stores for the caller's account. A key has 1 to 256 bytes without control characters. A value has at most 65,536 bytes.
///
/// Every function can return `Denied` (if there is no caller), `Invalid` (for an invalid key) and `Internal`. A function that changes
/// something can also return `CredentialRefused`.
pub trait Store {
    /// Returns the value of a key, or `None` if the key does not exist.
    ///
    /// # Errors
    /// Returns only the errors that the description of the trait lists.
    fn get_value(&self, key: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Sets the value of a key.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the value is too long, or if it would exceed the module's quota for the account.
    fn set_value(&self, key: &str, value: &[u8]) -> Result<(), Error>;

    /// Deletes a key. Deleting a key that does not exist is not an error.
    ///
    /// # Errors
    /// Returns only the errors that the description of the trait lists.
    fn delete_value(&self, key: &str) -> Result<(), Error>;

    /// Compares the value of a key with `expected`. If they are equal, sets the value of the key to `value` and returns `true`. The comparison and the change
    /// are atomic. `None` stands for a key that does not exist, so a `value` of `None` deletes the key.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] in the same cases as [`Store::set_value`].
    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error>;

    /// Returns at most `limit` keys that start with `prefix` and are greater than `after`, in byte order.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the limit is not 1 to 1,000.
    fn list_keys(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, Error>;
}

impl Store for Host {
    fn get_value(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        store::get(key)
    }

    fn set_value(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        store::set(key, value)
    }

    fn delete_value(&self, key: &str) -> Result<(), Error> {
        store::delete(key)
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        store::compare_and_set(key, expected, value)
    }

    fn list_keys(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        store::list(prefix, after, limit)
    }
}
