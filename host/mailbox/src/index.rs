//! The search indexes of this host. Each account has its own index in a folder of the file system.
//! An index is a cache. An index can be deleted at any time, and is then built again from the
//! messages on the mail server.
//!
//! An index contains the immutable data of messages. The folder and the flags of each message come
//! from the message index in the database, and are in memory while the account is in use.
//! [`latchmail_search`] has the format of the files.
//!
//! An index is built in the background after the first search of the account. Until the index is
//! complete, searches run on the mail server.

mod content;
pub(crate) mod credentials;
mod current_index;
mod deletion;
mod document;
mod files;
mod indexer;
mod indexes;
mod mailbox_threads;
mod merged_threads;
mod reading;
pub(crate) mod results;
pub(crate) mod selection;
mod threads;
mod unreadable;
mod update;

use std::sync::{Arc, OnceLock};

use latchmail_core::config;

use crate::access::Access;
use crate::context::Context;
use crate::error::Error;
use crate::numbers::Numbers;
use credentials::IndexCredentials;
pub(crate) use current_index::CurrentIndex;
use indexes::Indexes;

/// The search indexes of the accounts.
#[derive(Debug)]
pub struct SearchIndex {
    context: Arc<Context>,
    numbers: Arc<Numbers>,
    /// The indexes of this host. `None` if search indexes are disabled.
    indexes: Option<Indexes>,
    /// The source of the credentials for background work.
    credentials: OnceLock<Arc<dyn IndexCredentials>>,
}

impl SearchIndex {
    /// Without `settings`, the search indexes are disabled.
    pub(crate) fn new(
        context: Arc<Context>,
        numbers: Arc<Numbers>,
        settings: Option<&config::Index>,
    ) -> Self {
        Self {
            context,
            numbers,
            indexes: settings.map(Indexes::new),
            credentials: OnceLock::new(),
        }
    }

    /// Sets the source of the credentials of the search index. Only the first call has an effect.
    pub fn set_credentials(&self, credentials: Arc<dyn IndexCredentials>) {
        // A second call is an error of the service. The first source remains valid.
        let _ = self.credentials.set(credentials);
    }

    /// Returns the access with which the service reads the mailbox of an account in the background.
    /// Returns `None` if the account does not exist or is disabled, or if no source of credentials
    /// is set.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the database fails.
    pub async fn access_of(&self, account: &str) -> Result<Option<Access>, Error> {
        let Some(credentials) = self.credentials.get() else {
            return Ok(None);
        };
        let credential = credentials.credential(account).await?;
        Ok(credential.map(|credential| Access {
            account: account.to_owned(),
            credential,
            member: None,
        }))
    }
}
