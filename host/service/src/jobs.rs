//! The store and the handlers of jobs.

use std::sync::Arc;

use latchmail_core::clock::Clock;
use latchmail_core::keyring::Keyring;
use latchmail_directory::Directory;
use latchmail_http::App;
use latchmail_jobs::{Handler, Jobs};

/// Creates the store of jobs.
pub(crate) fn store(directory: &Directory, keys: Arc<Keyring>, clock: &Clock) -> Arc<Jobs> {
    Arc::new(Jobs::new(directory.jobs.clone(), keys, clock.clone()))
}

/// Returns the handlers of all kinds of jobs.
pub(crate) fn handlers(app: &Arc<App>) -> Vec<Arc<dyn Handler>> {
    let snoozer: Arc<dyn Handler> = app.snoozer.clone();
    vec![snoozer]
}
