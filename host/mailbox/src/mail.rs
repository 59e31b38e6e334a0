//! The mailboxes of one mail server, with the connections, caches, permits and locks for all
//! operations.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::changes::Changes;
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_core::keyring::Keyring;
use latchmail_core::metrics;
use latchmail_core::secrets;
use latchmail_directory::Directory;
use latchmail_directory::message_index::MessageIndex;
use latchmail_imap::Connector;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time;

use crate::access::Access;
use crate::authentication::TrustedResults;
use crate::bounds;
use crate::cache::MailboxCache;
use crate::doveadm::Doveadm;
use crate::error::Error;
use crate::index::Indexes;
use crate::index_credentials::IndexCredentials;
use crate::pool::Pool;

/// The mailboxes of one mail server.
pub struct Mail {
    connector: Connector,
    pub(crate) pool: Pool<Connector>,
    pub(crate) directory: Directory,
    pub(crate) cache: MailboxCache,
    /// Memory for downloads, and for messages of at least [`bounds::FIRST`] bytes while they are
    /// read, in MiB.
    pub(crate) message_memory: Arc<Semaphore>,
    /// Memory for longer headers and texts of listings, in MiB. A request releases this memory
    /// before its response is sent.
    listing_memory: Arc<Semaphore>,
    /// Limits the concurrent downloads of each account.
    download_permits: AccountPermits,
    /// One lock per account, which serializes the changes of the mailbox.
    pub(crate) change_locks: AccountPermits,
    /// One lock per account, which serializes the reconciliations of the mailbox.
    pub(crate) reconcile_locks: AccountPermits,
    /// One lock per account, which serializes the syncs of the mailbox.
    pub(crate) sync_locks: AccountPermits,
    /// The number of syncs that were requested or started so far.
    pub(crate) sync_ticket: AtomicU64,
    pub(crate) changes: Changes,
    /// Callbacks that close the connections of a revoked credential in other connection pools.
    pub(crate) close_callbacks: Mutex<Vec<CloseCallback>>,
    /// Ends open sessions at the mail server. `None` if doveadm is not configured.
    pub(crate) doveadm: Option<Arc<Doveadm>>,
    /// The keys that seal cursors.
    pub(crate) keys: Arc<Keyring>,
    /// Whether sessions at the mail server have the names of app passwords or of users.
    pub(crate) session_names: config::SessionNames,
    /// The settings with the log-in names of users.
    pub(crate) sign_in: config::SignIn,
    timeout: Duration,
    pub(crate) trusted_results: Arc<TrustedResults>,
    /// The search indexes of this host. `None` if the index is disabled.
    indexes: Option<Indexes>,
    /// The source of the credentials of the search index.
    pub(crate) index_credentials: OnceLock<Arc<dyn IndexCredentials>>,
}

/// A callback that receives the id of a revoked credential and closes its connections.
pub(crate) type CloseCallback = Box<dyn Fn(&str) + Send + Sync>;

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail")
            .field("connector", &self.connector)
            .finish_non_exhaustive()
    }
}

impl Mail {
    /// Creates the mailboxes of the configured mail server. Does not connect. Cursors are valid
    /// only in this value, unless [`Mail::with_keys`] sets their keys.
    ///
    /// # Errors
    /// Returns an error if an address, the doveadm key or TLS in the configuration is invalid.
    pub fn new(config: &config::Imap, directory: Directory) -> Result<Self, StartError> {
        let connector = Connector::new(config)?;
        let key = secrets::random().map_err(|error| StartError::new(error.to_string()))?;
        Ok(Self {
            pool: Pool::new(
                connector.clone(),
                config.connections_per_account,
                config.idle_connections,
                config.timeout,
                config.idle_timeout,
                &metrics::IMAP_WAIT,
            ),
            connector,
            directory,
            cache: MailboxCache::new(),
            message_memory: Arc::new(Semaphore::new(bounds::MESSAGE_MEMORY_MIB)),
            listing_memory: Arc::new(Semaphore::new(bounds::LISTING_MEMORY_MIB)),
            download_permits: AccountPermits::new(bounds::DOWNLOADS_PER_ACCOUNT),
            change_locks: AccountPermits::new(1),
            reconcile_locks: AccountPermits::new(1),
            sync_locks: AccountPermits::new(1),
            sync_ticket: AtomicU64::new(0),
            changes: Changes::default(),
            close_callbacks: Mutex::default(),
            doveadm: Doveadm::new(config)?.map(Arc::new),
            keys: Arc::new(Keyring::of(&[key])?),
            session_names: config.session_names,
            sign_in: config::SignIn::default(),
            timeout: config.timeout,
            trusted_results: Arc::default(),
            indexes: None,
            index_credentials: OnceLock::new(),
        })
    }

    /// Returns the index of messages.
    pub(crate) fn message_index(&self) -> &MessageIndex {
        &self.directory.message_index
    }

    /// Sets the keys of the service, so that cursors are valid on all hosts and after a restart.
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<Keyring>) -> Self {
        self.keys = keys;
        self
    }

    /// Sets the settings with the log-in names of users.
    #[must_use]
    pub fn with_sign_in(mut self, sign_in: &config::SignIn) -> Self {
        self.sign_in = sign_in.clone();
        self
    }

    /// Enables the search index. `run_indexer` must run, so that indexes are built.
    #[must_use]
    pub fn with_index(mut self, settings: &config::Index) -> Self {
        self.indexes = settings.enabled.then(|| Indexes::new(settings));
        self
    }

    /// Returns the search indexes of this host. Returns `None` if the index is disabled.
    pub(crate) fn indexes(&self) -> Option<&Indexes> {
        self.indexes.as_ref()
    }

    /// Sets the trusted `Authentication-Results` fields.
    #[must_use]
    pub fn with_trusted_results(mut self, trusted: TrustedResults) -> Self {
        self.trusted_results = Arc::new(trusted);
        self
    }

    /// Checks that the mail server accepts connections and sends its greeting.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the mail server does not accept a connection or sends no
    /// greeting.
    pub async fn ping(&self) -> Result<(), Error> {
        Ok(self.connector.ping().await?)
    }

    /// Returns the number of connections of the pool to the IMAP server, and how many of them are
    /// in use.
    #[must_use]
    pub fn pooled_connections(&self) -> (usize, usize) {
        self.pool.counts()
    }

    /// Waits until no change is in progress.
    pub async fn finished(&self) {
        self.changes.finished().await;
    }

    /// Acquires the mailbox's lock in `locks`. If the caller is a member, the returned access also
    /// holds the caller's connection permit ([`Pool::hold_member_permit`]).
    pub(crate) async fn lock<'a>(
        &self,
        locks: &AccountPermits,
        access: &'a Access,
    ) -> Result<(Cow<'a, Access>, Option<OwnedSemaphorePermit>), Error> {
        let access = self.pool.hold_member_permit(access).await?;
        let lock = locks.acquire(&access.account).await;
        Ok((access, lock))
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

    /// Waits until `mib` MiB of [`Mail::message_memory`] are available.
    pub(crate) async fn acquire_message_memory(
        &self,
        mib: u32,
    ) -> Result<OwnedSemaphorePermit, Error> {
        let busy = "too many large messages are being read";
        self.acquire_memory(&self.message_memory, mib, busy).await
    }

    /// Waits until the memory for reading `bytes` bytes of longer headers and texts is available.
    pub(crate) async fn acquire_listing_memory(
        &self,
        bytes: usize,
    ) -> Result<OwnedSemaphorePermit, latchmail_imap::Error> {
        let mib = u32::try_from(bytes.div_ceil(1024 * 1024)).unwrap_or(u32::MAX);
        let busy = "too many large headers are being read";
        let memory = self.acquire_memory(&self.listing_memory, mib, busy).await;
        memory.map_err(|error| latchmail_imap::Error::Unavailable(error.to_string()))
    }

    async fn acquire_memory(
        &self,
        memory: &Arc<Semaphore>,
        mib: u32,
        busy: &str,
    ) -> Result<OwnedSemaphorePermit, Error> {
        let permits = Arc::clone(memory).acquire_many_owned(mib);
        match time::timeout(self.timeout, permits).await {
            Ok(Ok(permits)) => Ok(permits),
            Ok(Err(_)) | Err(_) => Err(Error::Unavailable(busy.into())),
        }
    }
}
