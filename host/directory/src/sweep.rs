//! Deletes expired data:
//! - ended web sessions and OAuth grants, together with their app passwords
//! - tokens and codes that are not needed any longer
//! - unfinished sign-ins at the identity provider
//! - unused OAuth clients
//! - sendings, imports and requests of operator tokens that are older than a day
//! - the marks of imported messages that no longer exist
//! - expired uploads and tickets
//! - expired exports
//! - forward addresses that were not confirmed or that were deleted
//! - entries of the outbox whose outcome is older than 30 days
//! - changes of grants that are older than 30 days
//! - sent messages and delivery reports that are older than 30 days
//! - deliveries of webhooks that are older than 30 days, and expired subscriptions of agents
//! - old changes in the change logs of mailboxes
//! - the last log-ins of deleted app passwords
//! - the rows of stopped hosts, and events of hosts that are older than an hour
//!
//! The service does not depend on the time of the sweep. Each query for data with an expiry also
//! checks the expiry.

use latchmail_core::clock::Timestamp;

use crate::Directory;
use crate::db::Error;

impl Directory {
    /// Deletes data that has expired at `now`, up to a limit. Repairs the data for mail servers.
    /// Returns the ids of the deleted app passwords. The caller runs a sweep at the start of the
    /// service and about every hour.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Rows that this call already deleted remain deleted.
    pub async fn sweep(&self, now: Timestamp) -> Result<Vec<String>, Error> {
        self.db.repair_mailserver().await?;
        let mut ended = self.sessions.sweep(now).await?;
        ended.extend(self.oauth.sweep(now).await?);
        self.single_sign_on.sweep(now).await?;
        self.sendings.sweep(now).await?;
        self.imports.sweep(now).await?;
        self.operator_tokens.sweep(now).await?;
        self.uploads.sweep(now).await?;
        self.tickets.sweep(now).await?;
        self.exports.sweep(now).await?;
        self.forward_addresses.sweep(now).await?;
        self.outbox.sweep(now).await?;
        self.grant_changes.sweep(now).await?;
        self.deliveries.sweep(now).await?;
        self.policies.sweep(now).await?;
        self.webhooks.sweep(now).await?;
        self.message_index.sweep(now).await?;
        self.credentials.sweep_last_logins().await?;
        self.aliases.sweep_receipts().await?;
        self.hosts.sweep_hosts().await?;
        self.hosts.sweep_host_events(now).await?;
        Ok(ended)
    }
}
