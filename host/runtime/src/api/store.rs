//! The interface `store`, for keys and values that the module stores for the caller's account.

use latchmail_bindings::latchmail::host::store::Host;
use latchmail_bindings::latchmail::host::types::Error;

use super::call::Call;
use super::convert::account_error;
use super::host_call::host_call;
use crate::store::{self, Namespace};

impl Host for Call {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        let _span = host_call("store.get");
        Ok(async move {
            let namespace = self.namespace()?;
            Ok(self.services.store.get(namespace, &key).await?)
        }
        .await)
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), Error>> {
        let _span = host_call("store.set");
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
        let _span = host_call("store.delete");
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
        let _span = host_call("store.compare-and-set");
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
        let _span = host_call("store.list");
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
    /// Returns the namespace of the module for the caller's account. This function does not check
    /// the credential, because each route determines the accepted credentials.
    ///
    /// Returns an error if the caller uses a shared mailbox. A member must not read the data that
    /// the module stored for the mailbox's owner. The data of the caller's account must not contain
    /// data about other mailboxes.
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

/// Converts an error of the storage to a WIT error. The details are logged, and the module does not
/// receive them.
impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        let sentence = error.to_string();
        match error {
            store::Error::Invalid(_) => Self::Invalid(sentence),
            store::Error::TooLarge(_) => Self::TooLarge(sentence),
            store::Error::CredentialOver => Self::CredentialRefused,
            // This request started before an administrator removed the module. New requests cannot
            // reach a removed module.
            store::Error::Removed => Self::Unavailable,
            store::Error::Directory(error) => account_error(error.into()),
        }
    }
}
