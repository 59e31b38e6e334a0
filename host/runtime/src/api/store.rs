//! `store`: keys and values that the module stores for the caller's account.

use latchmail_bindings::latchmail::host::store::Host;
use latchmail_bindings::latchmail::host::types::Error;

use super::call::Call;
use crate::store::{self, Namespace};

impl Host for Call {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        Ok(async move {
            let namespace = self.namespace()?;
            Ok(self.services.store.get(namespace, &key).await?)
        }
        .await)
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), Error>> {
        Ok(async move {
            let namespace = self.namespace()?;
            Ok(self
                .services
                .store
                .set(namespace, &key, Some(&value))
                .await?)
        }
        .await)
    }

    async fn delete(&mut self, key: String) -> wasmtime::Result<Result<(), Error>> {
        Ok(async move {
            let namespace = self.namespace()?;
            Ok(self.services.store.set(namespace, &key, None).await?)
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
            let namespace = self.namespace()?;
            let (expected, value) = (expected.as_deref(), value.as_deref());
            let store = &self.services.store;
            Ok(store
                .compare_and_set(namespace, &key, expected, value)
                .await?)
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
            let namespace = self.namespace()?;
            let store = &self.services.store;
            Ok(store
                .list(namespace, &prefix, after.as_deref(), limit)
                .await?)
        }
        .await)
    }
}

impl Call {
    /// Returns the namespace of the module and the caller's account. The access of the route decides which credentials are accepted.
    ///
    /// Calls for a shared mailbox are denied: a member must not read the data that the module stored for the owner, and the data of the caller's account must
    /// not contain data about other mailboxes.
    fn namespace(&self) -> Result<Namespace<'_>, Error> {
        let caller = self.require_caller()?;
        if caller.shared.is_some() {
            let sentence = "Modules cannot store data for a shared mailbox";
            return Err(Error::Denied(sentence.into()));
        }
        Ok(Namespace {
            module: &self.module,
            quota: self.settings.store,
            caller,
        })
    }
}

/// Converts an error for the module, which receives only the kind. The details are logged.
impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        let sentence = error.to_string();
        match error {
            store::Error::Invalid(_) => Self::Invalid(sentence),
            store::Error::TooLarge(_) => Self::TooLarge(sentence),
            store::Error::CredentialOver => Self::CredentialRefused,
            // A new request does not reach the removed module.
            store::Error::Removed => Self::Unavailable,
            store::Error::Directory(_) => {
                tracing::error!("failed to read or change the data of a module: {sentence}");
                Self::Internal
            }
        }
    }
}
