//! The services that host functions call.

use std::sync::Arc;

use latchmail_accounts::aliases::Aliases;
use latchmail_accounts::auth::Auth;
use latchmail_accounts::domains::Domains;
use latchmail_accounts::teams::Teams;
use latchmail_callbacks::Webhooks;
use latchmail_core::clock::Clock;
use latchmail_directory::modules::Modules;
use latchmail_events::Streams;
use latchmail_mailbox::drafts::Drafts;
use latchmail_mailbox::filters::Filters;
use latchmail_mailbox::importing::Importer;
use latchmail_mailbox::outbox::Outbox;
use latchmail_mailbox::{Mail, Snoozer};
use latchmail_net::fetch::Fetch;

use crate::owner_modules::OwnerModules;

/// The services that host functions call.
#[derive(Clone, Debug)]
pub struct Services {
    /// Access to mailboxes.
    pub mail: Arc<Mail>,
    /// Outbound mail.
    pub outbox: Arc<Outbox>,
    /// Imports of messages.
    pub imports: Arc<Importer>,
    /// Snoozed messages.
    pub snoozer: Arc<Snoozer>,
    /// Drafts.
    pub drafts: Arc<Drafts>,
    /// Streams of events.
    pub streams: Streams,
    /// Vacation responses and rules.
    pub filters: Arc<Filters>,
    /// Webhooks, and the subscriptions of agents.
    pub webhooks: Arc<Webhooks>,
    /// Sessions and credentials of accounts.
    pub auth: Arc<Auth>,
    /// Aliases.
    pub aliases: Aliases,
    /// Custom domains.
    pub domains: Arc<Domains>,
    /// Shared mailboxes and their members.
    pub teams: Arc<Teams>,
    /// The switch with which owners let modules act without a request.
    pub owner_modules: Arc<dyn OwnerModules>,
    /// The database of modules, and of the data that modules keep for accounts.
    pub modules: Modules,
    /// HTTP requests to other hosts.
    pub fetch: Fetch,
    /// The clock.
    pub clock: Clock,
}
