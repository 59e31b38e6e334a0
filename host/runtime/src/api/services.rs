//! The services that host functions call.

use std::sync::Arc;

use latchmail_accounts::aliases::Aliases;
use latchmail_accounts::auth::Auth;
use latchmail_accounts::domains::Domains;
use latchmail_accounts::teams::Teams;
use latchmail_mailbox::Mail;
use latchmail_mailbox::outbox::Outbox;
use latchmail_net::fetch::Fetch;

use crate::store::Store;

/// The services that host functions call.
#[derive(Clone, Debug)]
pub struct Services {
    /// Access to mailboxes.
    pub mail: Arc<Mail>,
    /// Outbound mail.
    pub outbox: Arc<Outbox>,
    /// Sessions and credentials of accounts.
    pub auth: Arc<Auth>,
    /// Aliases.
    pub aliases: Aliases,
    /// Custom domains.
    pub domains: Arc<Domains>,
    /// Shared mailboxes and their members.
    pub teams: Arc<Teams>,
    /// The storage in which modules keep data for accounts.
    pub store: Store,
    /// HTTP requests to other hosts.
    pub fetch: Fetch,
}
