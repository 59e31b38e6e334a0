//! The mailboxes of one mail server.

use std::sync::Arc;

use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_core::keyring::Keyring;
use latchmail_core::secrets;
use latchmail_directory::Directory;
use latchmail_imap::Watch;

use crate::changelog::ChangeLog;
use crate::changing::Changer;
use crate::connections::Connections;
use crate::context::Context;
use crate::error::Error;
use crate::folders::Folders;
use crate::index::SearchIndex;
use crate::listing::Lister;
use crate::message::authentication::TrustedResults;
use crate::numbers::Numbers;
use crate::reading::Reader;
use crate::search::Searcher;

/// The mailboxes of one mail server.
#[derive(Debug)]
pub struct Mail {
    /// The connections to the mail server.
    pub connections: Arc<Connections>,
    /// The folders in the message index.
    pub folders: Arc<Folders>,
    /// The search indexes.
    pub index: Arc<SearchIndex>,
    /// Lists folders and messages.
    pub listing: Arc<Lister>,
    /// Reads messages.
    pub reading: Arc<Reader>,
    /// Changes messages.
    pub changing: Arc<Changer>,
    /// The change logs.
    pub changelog: ChangeLog,
    /// Searches messages and lists threads.
    pub search: Searcher,
    pub(crate) context: Arc<Context>,
    pub(crate) numbers: Arc<Numbers>,
}

/// The settings of mailboxes that are not part of [`config::Imap`].
#[derive(Debug, Default)]
pub struct MailSettings {
    /// The keys that encrypt and authenticate cursors of the change log. With the keys of the
    /// service, cursors are valid on all hosts and after a restart. `None` generates a key, so
    /// cursors are valid only until the process ends.
    pub keys: Option<Arc<Keyring>>,
    /// The settings with the log-in names of users.
    pub sign_in: config::SignIn,
    /// The settings of the search index. `None` disables the search indexes.
    pub index: Option<config::Index>,
    /// The trusted `Authentication-Results` fields.
    pub trusted_results: TrustedResults,
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
        let keys = match settings.keys {
            Some(keys) => keys,
            None => Arc::new(generate_key()?),
        };
        let timeout = config.timeout;
        let context = Arc::new(Context::new(config, settings.sign_in, directory)?);
        let folders = Arc::new(Folders::new(context.clone()));
        let numbers = Arc::new(Numbers::new(context.clone(), folders.clone()));
        let index = settings.index.filter(|index| index.enabled);
        let index = SearchIndex::new(context.clone(), numbers.clone(), index.as_ref());
        let index = Arc::new(index);
        let listing = Lister::new(
            context.clone(),
            folders.clone(),
            numbers.clone(),
            index.clone(),
            timeout,
        );
        let listing = Arc::new(listing);
        let reading = Reader::new(
            context.clone(),
            numbers.clone(),
            index.clone(),
            settings.trusted_results,
            timeout,
        );
        let changing = Changer::new(
            context.clone(),
            folders.clone(),
            numbers.clone(),
            index.clone(),
        );
        let changelog = ChangeLog::new(context.clone(), folders.clone(), numbers.clone(), keys);
        let search = Searcher::new(
            context.clone(),
            folders.clone(),
            listing.clone(),
            index.clone(),
        );
        Ok(Self {
            connections: Arc::clone(&context.connections),
            folders,
            index,
            listing,
            reading: Arc::new(reading),
            changing: Arc::new(changing),
            changelog,
            search,
            context,
            numbers,
        })
    }

    /// Opens a connection on which the mail server reports changes of the mailbox of an account.
    /// The connection is not a connection of the pool. Returns `None` if the account is disabled,
    /// or if the mail server reports no changes.
    ///
    /// # Errors
    /// Returns an [`Error`] if the connection or the database fails.
    pub async fn watch(&self, account: &str) -> Result<Option<Watch>, Error> {
        let Some(access) = self.index.access_of(account).await? else {
            return Ok(None);
        };
        self.connections.watch(&access.credential).await
    }
}

fn generate_key() -> Result<Keyring, StartError> {
    let key = secrets::random().map_err(|error| StartError::new(error.to_string()))?;
    Keyring::of(&[key])
}
