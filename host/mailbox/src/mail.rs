//! The mailboxes of one mail server, with the caches, permits and locks for all operations.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::changes::Changes;
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_core::keyring::Keyring;
use latchmail_core::secrets;
use latchmail_directory::{Db, Directory};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time;

use crate::bounds;
use crate::connections::Connections;
use crate::context::Context;
use crate::error::Error;
use crate::folders::Folders;
use crate::index::SearchIndex;
use crate::memory::SharedMemory;
use crate::message::authentication::TrustedResults;
use crate::numbers::Numbers;

/// The mailboxes of one mail server.
pub struct Mail {
    /// The connections to the mail server.
    pub connections: Arc<Connections>,
    pub(crate) context: Arc<Context>,
    /// The folders in the index of messages.
    pub folders: Arc<Folders>,
    /// The numbers of messages.
    pub(crate) numbers: Arc<Numbers>,
    /// The search indexes.
    pub index: Arc<SearchIndex>,
    /// Memory for longer headers and texts of listings. A request releases this memory before its
    /// response is sent.
    pub(crate) listing_memory: SharedMemory,
    /// Limits the concurrent downloads of each account.
    download_permits: AccountPermits,
    /// One lock per account, which serializes the changes of the mailbox.
    pub(crate) change_locks: AccountPermits,
    pub(crate) changes: Changes,
    /// The keys that seal cursors.
    pub(crate) keys: Arc<Keyring>,
    timeout: Duration,
    pub(crate) trusted_results: Arc<TrustedResults>,
}

/// The settings of mailboxes that are not in the configuration of IMAP.
#[derive(Debug, Default)]
pub struct MailSettings {
    /// The keys that seal cursors. With the keys of the service, cursors are valid on all hosts and
    /// after a restart. `None` generates a key.
    pub keys: Option<Arc<Keyring>>,
    /// The settings with the log-in names of users.
    pub sign_in: config::SignIn,
    /// The settings of the search index. `None` disables the index.
    pub index: Option<config::Index>,
    /// The trusted `Authentication-Results` fields.
    pub trusted_results: TrustedResults,
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail")
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

impl Mail {
    /// Creates the mailboxes of the configured mail server. Does not connect.
    ///
    /// # Errors
    /// Returns an error if an address, the doveadm key or TLS in the configuration is invalid.
    pub fn new(
        config: &config::Imap,
        directory: Directory,
        settings: MailSettings,
    ) -> Result<Self, StartError> {
        let context = Arc::new(Context::new(config, settings.sign_in, directory)?);
        let keys = match settings.keys {
            Some(keys) => keys,
            None => Arc::new(generate_key()?),
        };
        let folders = Arc::new(Folders::new(Arc::clone(&context)));
        let numbers = Arc::new(Numbers::new(Arc::clone(&context), Arc::clone(&folders)));
        let index = settings.index.filter(|index| index.enabled);
        let index = SearchIndex::new(Arc::clone(&context), Arc::clone(&numbers), index.as_ref());
        Ok(Self {
            connections: Arc::clone(&context.connections),
            index: Arc::new(index),
            numbers,
            folders,
            context,
            listing_memory: SharedMemory::new(
                bounds::LISTING_MEMORY_MIB,
                config.timeout,
                "too many large headers are being read",
            ),
            download_permits: AccountPermits::new(bounds::DOWNLOADS_PER_ACCOUNT),
            change_locks: AccountPermits::new(1),
            changes: Changes::default(),
            keys,
            timeout: config.timeout,
            trusted_results: Arc::new(settings.trusted_results),
        })
    }

    /// Returns the database with the index of messages.
    pub(crate) fn db(&self) -> &Db {
        self.context.db()
    }

    /// Waits until no change is in progress.
    pub async fn finished(&self) {
        self.changes.finished().await;
    }

    /// Waits for a download permit of an account.
    pub(crate) async fn acquire_download(
        &self,
        account: &str,
    ) -> Result<OwnedSemaphorePermit, Error> {
        let permit = self.download_permits.acquire(account);
        match time::timeout(self.timeout, permit).await {
            Ok(Some(permit)) => Ok(permit),
            Ok(None) | Err(_) => Err(Error::Unavailable(
                "the account has too many concurrent downloads".into(),
            )),
        }
    }
}

fn generate_key() -> Result<Keyring, StartError> {
    let key = secrets::random().map_err(|error| StartError::new(error.to_string()))?;
    Keyring::of(&[key])
}
