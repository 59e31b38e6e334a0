//! `store`: keys and values that the module stores for the caller's account.

use latchmail_bindings::latchmail::host::store::Host;
use latchmail_bindings::latchmail::host::types::Error;

use super::Call;
use crate::store::{self, Keeper};

impl Host for Call {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        Ok(async move {
            let keeper = self.keeper()?;
            Ok(self.services.store.get(keeper, &key).await?)
        }
        .await)
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), Error>> {
        Ok(async move {
            let keeper = self.keeper()?;
            Ok(self.services.store.set(keeper, &key, Some(&value)).await?)
        }
        .await)
    }

    async fn delete(&mut self, key: String) -> wasmtime::Result<Result<(), Error>> {
        Ok(async move {
            let keeper = self.keeper()?;
            Ok(self.services.store.set(keeper, &key, None).await?)
        }
        .await)
    }

    async fn compare_and_set(
        &mut self,
        key: String,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
    ) -> wasmtime::Result<Result<bool, Error>> {
        Ok(async move {
            let keeper = self.keeper()?;
            let (expected, value) = (expected.as_deref(), value.as_deref());
            let store = &self.services.store;
            Ok(store.compare_and_set(keeper, &key, expected, value).await?)
        }
        .await)
    }

    async fn list(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> wasmtime::Result<Result<Vec<String>, Error>> {
        Ok(async move {
            let keeper = self.keeper()?;
            let store = &self.services.store;
            Ok(store.list(keeper, &prefix, after.as_deref(), limit).await?)
        }
        .await)
    }
}

impl Call {
    /// Returns the module and the caller whose account it stores data for. The access of the route decides which credentials are accepted.
    ///
    /// Calls for a shared mailbox are denied: a member must not read what the module stored for the owner, and data of several mailboxes must not
    /// mix in one account.
    fn keeper(&self) -> Result<Keeper<'_>, Error> {
        let caller = self.caller()?;
        if caller.shared.is_some() {
            let sentence = "Modules cannot store data for a shared mailbox";
            return Err(Error::Denied(sentence.into()));
        }
        Ok(Keeper {
            module: &self.module,
            quota: self.settings.store,
            caller,
        })
    }
}

/// The module receives the kind of an error. The details are logged here.
impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        let sentence = error.to_string();
        match error {
            store::Error::Invalid(_) => Self::Invalid(sentence),
            store::Error::TooLarge(_) => Self::TooLarge(sentence),
            store::Error::CredentialOver => Self::CredentialRefused,
            // A retry reaches the version that serves then.
            store::Error::Removed => Self::Unavailable,
            store::Error::Directory(_) => {
                tracing::error!("failed to read or change the data of a module: {sentence}");
                Self::Internal
            }
        }
    }
}
