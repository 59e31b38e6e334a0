//! The exports of accounts, and the deletion of accounts, which begins with a last export.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_export::{Exports, Parts};
use latchmail_mailbox::removal::{LastExport, Removals};
use latchmail_mailbox::{Access, Error};

/// Creates the exports, and the deletions that wait for them.
pub(super) fn create(
    config: &Config,
    parts: Parts,
) -> Result<(Arc<Exports>, Arc<Removals>), StartError> {
    let accounts = parts.directory.accounts.clone();
    let (mail, jobs) = (Arc::clone(&parts.mail), Arc::clone(&parts.jobs));
    let access = Arc::clone(&parts.last_rights);
    let exports = Arc::new(Exports::new(&config.export, parts));
    let last = Arc::new(LastExports(Arc::clone(&exports)));
    let removals = Removals::new(config, accounts, mail, jobs, access, last)?;
    Ok((exports, Arc::new(removals)))
}

/// Exports the mailboxes of accounts that are being deleted.
#[derive(Debug)]
struct LastExports(Arc<Exports>);

impl LastExport for LastExports {
    fn export<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<bool, Error>> {
        let exported = self.0.export_last(&access.account);
        exported
            .map(|result| result.map_err(|failure| Error::Internal(failure.to_string())))
            .boxed()
    }
}
