//! The connections to the mail server: a pool of authenticated connections, the end of connections
//! and sessions of revoked credentials, and the commands of doveadm.

pub(crate) mod doveadm;
mod imap_connector;
pub(crate) mod pool;
pub(crate) mod retry;
pub(crate) mod revocation;
pub(crate) mod server_text;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex};

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::caller::MailCredential;
use latchmail_core::config;
use latchmail_core::ended_credentials::EndedCredentials;
use latchmail_core::error::StartError;
use latchmail_core::metrics;
use latchmail_directory::Directory;
use latchmail_imap::{Connector, Watch};
use tokio::sync::OwnedSemaphorePermit;

use crate::access::Access;
use crate::error::Error;
use doveadm::Doveadm;
use pool::{Lease, Pool};

/// The connections to one mail server.
pub struct Connections {
    connector: Connector,
    pool: Pool<Connector>,
    /// The responses in progress, which stop when their credential ends.
    ended: EndedCredentials,
    /// Callbacks that close the connections of a revoked credential in other connection pools.
    close_callbacks: Mutex<Vec<CloseCallback>>,
    /// Ends open sessions at the mail server. `None` if doveadm is not configured.
    doveadm: Option<Arc<Doveadm>>,
    /// Whether the user name of a session at the mail server contains the id of the app password,
    /// or is the log-in name of the user.
    session_names: config::SessionNames,
    /// The settings with the log-in names of users.
    sign_in: config::SignIn,
    /// The database with the app passwords whose sessions must end.
    directory: Directory,
}

/// A callback that receives the id of a revoked credential and closes its connections.
type CloseCallback = Box<dyn Fn(&str) + Send + Sync>;

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("connector", &self.connector)
            .finish_non_exhaustive()
    }
}

impl Connections {
    /// Creates the connection pool from the configuration. Does not connect.
    pub(crate) fn new(
        config: &config::Imap,
        sign_in: config::SignIn,
        directory: Directory,
    ) -> Result<Self, StartError> {
        let connector = Connector::new(config)?;
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
            ended: EndedCredentials::default(),
            close_callbacks: Mutex::default(),
            doveadm: Doveadm::new(config)?.map(Arc::new),
            session_names: config.session_names,
            sign_in,
            directory,
        })
    }

    /// Checks that the mail server accepts connections and sends its greeting.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the mail server does not accept a connection or sends no
    /// greeting.
    pub async fn ping(&self) -> Result<(), Error> {
        Ok(self.connector.ping().await?)
    }

    /// Returns the registry of the responses in progress.
    #[must_use]
    pub fn ended_credentials(&self) -> &EndedCredentials {
        &self.ended
    }

    /// Returns the count of the pool's connections to the IMAP server, and the count of those
    /// connections that are in use.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        self.pool.counts()
    }

    /// Opens a connection on which the mail server reports changes of a mailbox.
    pub(crate) async fn watch(&self, credential: &MailCredential) -> Result<Option<Watch>, Error> {
        let session = self.connector.logged_in(credential).await?;
        Ok(Watch::start(session).await?)
    }

    /// Frees the space of the deleted messages of a user at the mail server. A failure is logged.
    /// Does nothing if `imap.doveadm` is not configured.
    pub(crate) async fn purge(&self, user: &str) {
        if let Some(doveadm) = &self.doveadm
            && let Err(error) = doveadm.purge(user).await
        {
            tracing::warn!(%error, "failed to free the space of a deleted mailbox");
        }
    }

    /// Leases a connection from the pool. See [`Pool::lease`].
    pub(crate) async fn lease(
        &self,
        access: &Access,
        folder: Option<&str>,
    ) -> Result<Lease<Connector>, Error> {
        self.pool.lease(access, folder).await
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
}
