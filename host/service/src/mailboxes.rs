//! Creates the access to mailboxes, and the services of drafts and imports.

use std::sync::Arc;

use latchmail_core::clock::Clock;
use latchmail_core::config::{Config, Filter};
use latchmail_core::error::StartError;
use latchmail_core::keyring::Keyring;
use latchmail_core::{hexadecimal, secrets};
use latchmail_directory::Directory;
use latchmail_mailbox::drafts::Drafts;
use latchmail_mailbox::importing::Importer;
use latchmail_mailbox::outbox::Outbox;
use latchmail_mailbox::{Mail, MailSettings, TrustedResults};

use super::start_error;

/// Creates the access to mailboxes.
pub(crate) async fn mail(
    config: &Config,
    directory: &Directory,
    keys: Arc<Keyring>,
) -> Result<Mail, StartError> {
    let settings = MailSettings {
        keys: Some(keys),
        sign_in: config.sign_in.clone(),
        index: Some(config.index.clone()),
        trusted_results: trusted_results(config, directory).await?,
    };
    Mail::new(&config.imap, directory.clone(), settings)
}

/// Creates the service of drafts.
pub(crate) fn drafts(
    directory: &Directory,
    mail: &Arc<Mail>,
    outbox: &Arc<Outbox>,
    clock: &Clock,
) -> Arc<Drafts> {
    let (mail, outbox) = (Arc::clone(mail), Arc::clone(outbox));
    Arc::new(Drafts::new(directory.clone(), mail, outbox, clock.clone()))
}

/// Creates the service of imports.
pub(crate) fn importer(
    directory: &Directory,
    mail: &Arc<Mail>,
    clock: &Clock,
    host_id: &str,
) -> Arc<Importer> {
    let (directory, mail) = (directory.clone(), Arc::clone(mail));
    Arc::new(Importer::new(directory, mail, clock.clone(), host_id))
}

/// Returns the rules by which `Authentication-Results` fields are trusted. The milter marks its
/// fields with a key. If this key does not exist, creates it.
async fn trusted_results(
    config: &Config,
    directory: &Directory,
) -> Result<TrustedResults, StartError> {
    let authserv_id = config.inbound.authserv_id.clone();
    let key = match config.results_filter() {
        Filter::Latchmail if !authserv_id.is_empty() => {
            let new = secrets::random::<32>().map_err(start_error)?;
            let key = directory.keys.results_key(&hexadecimal::lower(&*new)).await;
            Some(key.map_err(start_error)?.as_bytes().into())
        }
        Filter::Latchmail | Filter::Other => None,
    };
    let spam_header = match config.results_filter() {
        // Without the milter's mark, the position of the field proves nothing.
        Filter::Latchmail if key.is_none() => String::new(),
        Filter::Latchmail | Filter::Other => config.inbound.spam_header.clone(),
    };
    Ok(TrustedResults {
        authserv_id,
        key,
        spam_header,
    })
}
