//! Stores values of a module's own types for the caller's account. Each value is JSON under a key
//! of [`Store`].
//!
//! ```
//! use latchmail_sdk::capability::{Error, Store};
//! use latchmail_sdk::stored;
//! use latchmail_sdk::testing::FakeHost;
//!
//! fn count(host: &impl Store) -> Result<u32, Error> {
//!     stored::change(host, "count", |count: Option<u32>| Some(count.unwrap_or_default() + 1))?;
//!     Ok(stored::read(host, "count")?.unwrap_or_default())
//! }
//!
//! let host = FakeHost::new();
//! assert_eq!(count(&host).unwrap(), 1);
//! assert_eq!(count(&host).unwrap(), 2);
//! host.sign_in("grace@example.test");
//! assert_eq!(count(&host).unwrap(), 1);
//! ```
//!
//! A newer version of the module must be able to read old values, so every new field needs a
//! default (`#[serde(default)]`). If a value cannot be parsed, reading returns [`Error::Internal`]
//! and the value does not change.

use latchmail_shape::codes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::capability::{Caller, Error, Store};
use crate::failure::Failure;

/// Maximum number of attempts of a change. An attempt fails only if a concurrent change succeeds.
/// Repeated failures indicate a flood of changes.
const ATTEMPTS: usize = 8;

/// Returns the value of a key, or `None` if the key does not exist.
///
/// # Errors
/// Returns an error if [`Store::get_value`] fails. Returns [`Error::Internal`] if the value cannot
/// be parsed as a `T`.
pub fn read<T: DeserializeOwned>(host: &impl Store, key: &str) -> Result<Option<T>, Error> {
    host.get_value(key)?.as_deref().map(parse).transpose()
}

/// Sets the value of a key. Use [`change`] if requests can change the value concurrently.
///
/// # Errors
/// Returns an error if [`Store::set_value`] fails. Returns [`Error::Internal`] if the value cannot
/// be serialized.
pub fn write<T: Serialize>(host: &impl Store, key: &str, value: &T) -> Result<(), Error> {
    host.set_value(key, &serialize(value)?)
}

/// Atomically changes the value of a key and returns the new value. The argument `change` is a
/// function that receives the current value and returns the new value. `None` means that the key
/// has no value. If another request changes the value concurrently, `change` is called with the new
/// current value.
///
/// # Errors
/// Returns an error if [`Store::get_value`] or [`Store::compare_and_set`] fails. Returns
/// [`Error::Conflict`] if other requests changed the value during every attempt. Returns
/// [`Error::Internal`] if the current value cannot be parsed as a `T` or the new value cannot be
/// serialized.
pub fn change<T: Serialize + DeserializeOwned>(
    host: &impl Store,
    key: &str,
    mut change: impl FnMut(Option<T>) -> Option<T>,
) -> Result<Option<T>, Error> {
    attempt(host, key, |was| Ok(change(was)), |error| error)
}

/// Changes the value of a key like [`change()`], but `change` can fail. If `change` fails, the
/// value does not change.
///
/// # Errors
/// Returns the failure of `change` if `change` fails. In the error cases of [`change()`], returns
/// the error converted with [`Failure::of`].
pub fn try_change<T: Serialize + DeserializeOwned>(
    host: &(impl Store + Caller),
    key: &str,
    change: impl FnMut(Option<T>) -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    let convert_error = |error| Failure::of(error, (codes::NOT_FOUND, "Not found"), host);
    attempt(host, key, change, convert_error)
}

/// Reads the value, calls `change`, and stores the new value. If the value changed concurrently,
/// repeats these steps. Makes at most [`ATTEMPTS`] attempts.
fn attempt<T: Serialize + DeserializeOwned, E>(
    host: &impl Store,
    key: &str,
    mut change: impl FnMut(Option<T>) -> Result<Option<T>, E>,
    convert_error: impl Fn(Error) -> E,
) -> Result<Option<T>, E> {
    for _ in 0..ATTEMPTS {
        let current = host.get_value(key).map_err(&convert_error)?;
        let parsed = current
            .as_deref()
            .map(parse)
            .transpose()
            .map_err(&convert_error)?;
        let value = change(parsed)?;
        let new = value
            .as_ref()
            .map(serialize)
            .transpose()
            .map_err(&convert_error)?;
        if new == current {
            return Ok(value);
        }
        let set = host.compare_and_set(key, current.as_deref(), new.as_deref());
        if set.map_err(&convert_error)? {
            return Ok(value);
        }
    }
    Err(convert_error(Error::conflict(
        codes::STORE_CONFLICT,
        "The value is being changed; try again in a moment",
    )))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|_| Error::Internal)
}

fn serialize<T: Serialize>(value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|_| Error::Internal)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::testing::FakeHost;

    #[test]
    fn a_change_applies_to_the_current_value() {
        let host = FakeHost::new();
        let calls = Cell::new(0);
        let now = change(&host, "n", |was: Option<u32>| {
            // Another request changes the value concurrently with the first attempt.
            if calls.replace(calls.get() + 1) == 0 {
                write(&host, "n", &40).unwrap();
            }
            Some(was.unwrap_or_default() + 2)
        });
        assert_eq!((now.unwrap(), calls.get()), (Some(42), 2));
        assert_eq!(read::<u32>(&host, "n").unwrap(), Some(42));
    }

    #[test]
    fn repeated_concurrent_changes_are_a_conflict() {
        let host = FakeHost::new();
        let refused = change(&host, "n", |was: Option<u32>| {
            write(&host, "n", &(was.unwrap_or_default() + 1)).unwrap();
            Some(0)
        });
        assert!(matches!(refused, Err(Error::Conflict(_))));
    }

    #[test]
    fn a_value_of_another_type_is_not_changed() {
        let host = FakeHost::new();
        host.set_value("n", b"\"seven\"").unwrap();
        assert!(matches!(read::<u32>(&host, "n"), Err(Error::Internal)));
        let refused = change(&host, "n", |_: Option<u32>| Some(7));
        assert!(matches!(refused, Err(Error::Internal)));
        assert_eq!(host.stored_values()["n"], b"\"seven\"");
    }

    #[test]
    fn none_deletes_the_value() {
        let host = FakeHost::new();
        write(&host, "n", &7).unwrap();
        assert_eq!(change(&host, "n", |_: Option<u32>| None).unwrap(), None);
        assert!(host.stored_values().is_empty());
    }
}
