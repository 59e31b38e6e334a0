//! The store and the handlers of jobs.

use std::sync::Arc;

use latchmail_accounts::service_credentials::ServiceCredentials;
use latchmail_core::clock::Clock;
use latchmail_core::config::Filter;
use latchmail_core::keyring::Keyring;
use latchmail_directory::Directory;
use latchmail_directory::credentials::index_keys::ServiceUse;
use latchmail_http::App;
use latchmail_jobs::{Handler, Jobs};
use latchmail_mailbox::outbox::Departures;

use crate::sender_access::SenderAccess;

/// Creates the store of jobs.
pub(crate) fn store(directory: &Directory, keys: Arc<Keyring>, clock: &Clock) -> Arc<Jobs> {
    Arc::new(Jobs::new(directory.jobs.clone(), keys, clock.clone()))
}

/// Returns the handlers of all kinds of jobs.
pub(crate) fn handlers(app: &Arc<App>) -> Vec<Arc<dyn Handler>> {
    let access = SenderAccess {
        credentials: ServiceCredentials::new(
            ServiceUse::Outbox,
            app.directory.credentials.clone(),
            app.auth.keys(),
            app.clock.clone(),
        ),
        auth: Arc::clone(&app.auth),
    };
    let has_milter = app.config.results_filter() == Filter::Latchmail
        && !app.config.inbound.authserv_id.is_empty();
    let departures = Departures::new(Arc::clone(&app.outbox), Arc::new(access), has_milter);
    let snoozer: Arc<dyn Handler> = app.snoozer.clone();
    vec![Arc::new(departures), snoozer]
}
