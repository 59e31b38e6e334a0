//! Creates the access to mailboxes, and the services of drafts and imports.

use std::sync::Arc;

use latchmail_core::clock::Clock;
use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_core::keyring::Keyring;
use latchmail_directory::Directory;
use latchmail_mailbox::drafts::Drafts;
use latchmail_mailbox::importing::Importer;
use latchmail_mailbox::outbox::Outbox;
use latchmail_mailbox::{Mail, MailSettings};

use super::milter_key::trusted_results;

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
