//! The interface `store`, for keys and values that the module stores for the caller's account. This
//! module checks keys, values and sizes. The directory, which is the database of the service,
//! stores the entries separately for each account and each module.

use crate::api::problem;
use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::store::Host;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::Caller;
use latchmail_core::codes;
use latchmail_directory::aliases::AliasCaller;
use latchmail_directory::modules::store::{Change, Entry, Expected};

use super::call::Call;
use super::convert::account_error;
use super::host_call::host_call;

/// The maximum length of a key in bytes.
const MAX_KEY_BYTES: usize = 256;

/// The maximum length of a value in bytes.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// The maximum number of keys in one list.
const MAX_LISTED_KEYS: u32 = 1000;

impl Host for Call {
    async fn get(&mut self, key: String) -> Result<Option<Vec<u8>>, HostError<Error>> {
        let _span = host_call("store.get");
        let account = &self.storing_caller()?.account;
        let stored = self.services.modules.stored(account, self.entry(&key)?);
        Ok(stored.await.map_err(directory_error)?)
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> Result<(), HostError<Error>> {
        let _span = host_call("store.set");
        self.store(&key, Expected::Any, Some(&value)).await?;
        Ok(())
    }

    async fn delete(&mut self, key: String) -> Result<(), HostError<Error>> {
        let _span = host_call("store.delete");
        self.store(&key, Expected::Any, None).await?;
        Ok(())
    }

    async fn compare_and_set(
        &mut self,
        key: String,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
    ) -> Result<bool, HostError<Error>> {
        let _span = host_call("store.compare-and-set");
        let expected = Expected::Value(expected.as_deref());
        Ok(self.store(&key, expected, value.as_deref()).await?)
    }

    async fn list(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> Result<Vec<String>, HostError<Error>> {
        let _span = host_call("store.list");
        let account = &self.storing_caller()?.account;
        if !(1..=MAX_LISTED_KEYS).contains(&limit) {
            return Err(problem::invalid(
                codes::INVALID_PAGING_PARAMETERS,
                "limit must be 1 to 1000",
            )
            .into());
        }
        let after = after.unwrap_or_default();
        if !is_key_prefix(&prefix) || !is_key_prefix(&after) {
            let text = "`prefix` and `after` must be at most 256 bytes without control characters";
            return Err(problem::invalid(codes::STORE_KEY_INVALID, text).into());
        }
        let modules = &self.services.modules;
        let keys = modules.stored_keys(account, &self.module, &prefix, &after, limit);
        Ok(keys.await.map_err(directory_error)?)
    }
}

impl Call {
    /// Stores or deletes a value. Returns `false` and changes nothing if the current value is not
    /// the expected value.
    async fn store(
        &mut self,
        key: &str,
        expected: Expected<'_>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        let caller = self.storing_caller()?;
        let entry = self.entry(key)?;
        if value.is_some_and(|value| value.len() > MAX_VALUE_BYTES) {
            let text = format!("A value is at most {MAX_VALUE_BYTES} bytes");
            return Err(problem::too_large(codes::STORE_VALUE_TOO_LARGE, text));
        }
        if self.preview.is_active() {
            if let Expected::Value(expected) = expected {
                let current = self.services.modules.stored(&caller.account, entry).await;
                if current.map_err(directory_error)?.as_deref() != expected {
                    return Ok(false);
                }
            }
            let verb = if value.is_some() { "store" } else { "delete" };
            self.preview
                .records(|| format!("{verb} the module's value {key:?}"));
            return Ok(true);
        }
        let quota = self.settings.store;
        let acting = AliasCaller::new(caller, self.services.clock.now());
        let modules = &self.services.modules;
        let change = modules.store(acting, entry, expected, value, quota).await;
        match change.map_err(directory_error)? {
            Change::Done => Ok(true),
            Change::Unexpected => Ok(false),
            Change::Full => Err(problem::too_large(
                codes::STORE_FULL,
                format!(
                    "The value does not fit into the {quota} bytes that the module {} can store for an account",
                    self.module
                ),
            )),
            Change::CredentialOver => Err(Error::CredentialRefused),
            // This request started before the module was removed. New requests cannot reach a
            // removed module.
            Change::Removed => Err(Error::Unavailable),
        }
    }

    /// Returns the caller, for whose account the module stores values. This function does not check
    /// the credential, because each route determines the accepted credentials.
    ///
    /// Returns an error if the caller uses a shared mailbox. A member must not read the data that
    /// the module stored for the mailbox's owner. The data of the caller's account must not contain
    /// data about other mailboxes.
    fn storing_caller(&self) -> Result<&Caller, Error> {
        let caller = self.require_caller()?;
        if caller.shared.is_some() {
            let sentence = "Modules cannot store data for a shared mailbox";
            return Err(problem::denied(codes::PERMISSION_DENIED, sentence));
        }
        Ok(caller)
    }

    fn entry<'a>(&'a self, key: &'a str) -> Result<Entry<'a>, Error> {
        if key.is_empty() || !is_key_prefix(key) {
            let text = "A key must be 1 to 256 bytes without control characters";
            return Err(problem::invalid(codes::STORE_KEY_INVALID, text));
        }
        Ok(Entry {
            module: &self.module,
            key,
        })
    }
}

fn directory_error(error: latchmail_directory::Error) -> Error {
    account_error(error.into())
}

fn is_key_prefix(text: &str) -> bool {
    text.len() <= MAX_KEY_BYTES && !text.chars().any(char::is_control)
}
