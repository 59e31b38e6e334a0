//! `latchmail:host/store`: stored values of the caller's account.

use super::{Error, Host};
use crate::bindings::latchmail::host::store;

/// The keys and values that the module stores for the caller's account. A key has 1 to 256 bytes
/// without control characters. A value has at most 65,536 bytes.
///
/// Every function returns [`Error::Denied`] if there is no caller, [`Error::Invalid`] if the key is
/// invalid, and [`Error::Internal`] if the host fails. A function that changes values also returns
/// [`Error::CredentialRefused`] if the caller's credential becomes invalid during the request.
pub trait Store {
    /// Returns the value of a key, or `None` if the key does not exist.
    ///
    /// # Errors
    /// Returns an error in the cases that the description of [`Store`] lists.
    fn get_value(&self, key: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Sets the value of a key.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the value is too long, or if the module's quota for the
    /// account would be exceeded.
    fn set_value(&self, key: &str, value: &[u8]) -> Result<(), Error>;

    /// Deletes a key. Succeeds even if the key does not exist.
    ///
    /// # Errors
    /// Returns an error in the cases that the description of [`Store`] lists.
    fn delete_value(&self, key: &str) -> Result<(), Error>;

    /// Atomically replaces the value of a key with `value` if the current value equals `expected`.
    /// Returns whether the values were equal. An `expected` of `None` means that the key does not
    /// exist. A `value` of `None` deletes the key.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the value is too long, or if the module's quota for the
    /// account would be exceeded.
    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error>;

    /// Returns the keys that start with `prefix` and are greater than `after`. Returns at most
    /// `limit` keys, in byte order.
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
