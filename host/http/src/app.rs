//! The state of the service, which all handlers of the host use. The routes are in
//! [`crate::routes`].

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, HeaderValue};
use latchmail_accounts::aliases::Aliases;
use latchmail_accounts::auth::{Auth, ParsedCredential};
use latchmail_accounts::routing::Routing;
use latchmail_accounts::service_keys::ServiceKeys;
use latchmail_callbacks::Webhooks;
use latchmail_core::caller::{Caller, Credential, SESSION_ONLY};
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::config::Config;
use latchmail_core::ended_credentials::EndedCredentials;
use latchmail_core::error::{Failure, StartError};
use latchmail_core::limits::Key;
use latchmail_directory::Directory;
use latchmail_events::{Streams, Watcher};
use latchmail_export::Exports;
use latchmail_handlers::Handlers;
use latchmail_jobs::Jobs;
use latchmail_mailbox::drafts::Drafts;
use latchmail_mailbox::holds::Holds;
use latchmail_mailbox::importing::Importer;
use latchmail_mailbox::journal::Journal;
use latchmail_mailbox::outbox::Outbox;
use latchmail_mailbox::removal::Removals;
use latchmail_mailbox::{Mail, Snoozer};
use latchmail_oauth::OAuth;
use latchmail_runtime::manager::ModuleManager;

use crate::message::Response;
use crate::rejection::Rejection;
use crate::route_group::RouteGroup;
use crate::state::{HttpState, State};

/// The functions of the crate with the pages. This crate cannot call them directly, because that
/// crate depends on this crate.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// Returns the routes of the pages, or an error if their API description cannot be serialized.
    pub route_groups: fn(&Config) -> Result<Vec<RouteGroup<App>>, StartError>,
    /// Renders an error as a page, and logs the error.
    pub error: fn(&App, &Rejection) -> Result<Response, Rejection>,
}

/// The state of the service, which all handlers of the host use.
#[derive(Debug)]
pub struct App {
    /// The id of this process among the hosts that share the database.
    pub host_id: String,
    /// The name of this machine.
    pub host_name: String,
    /// Whether the service is about to stop. A stopping service reports that it is not ready for
    /// requests.
    pub stopping: AtomicBool,
    /// The keys with which this host signs tokens and encrypts stored secrets. They change when the
    /// operator edits the key file or selects another current key in the database.
    pub service_keys: ServiceKeys,
    /// The configuration.
    pub config: Config,
    /// The clock.
    pub clock: Clock,
    /// The database.
    pub directory: Directory,
    /// Access to mailboxes.
    pub mail: Arc<Mail>,
    /// Outbound mail.
    pub outbox: Arc<Outbox>,
    /// Imports of messages.
    pub imports: Arc<Importer>,
    /// Snoozed messages.
    pub snoozer: Arc<Snoozer>,
    /// The watched mailboxes.
    pub watcher: Arc<Watcher>,
    /// Streams of events.
    pub streams: Streams,
    /// Drafts.
    pub drafts: Arc<Drafts>,
    /// Messages that a policy holds.
    pub holds: Arc<Holds>,
    /// The changes of grants.
    pub journal: Arc<Journal>,
    /// Webhooks, and the subscriptions of agents.
    pub webhooks: Arc<Webhooks>,
    /// The archives with the data of accounts.
    pub exports: Arc<Exports>,
    /// The modules that act without a request.
    pub handlers: Arc<Handlers>,
    /// Work without requests.
    pub jobs: Arc<Jobs>,
    /// The deletion of accounts whose grace period is over.
    pub removals: Arc<Removals>,
    /// The operator's changes of the routes of mail.
    pub routing: Arc<Routing>,
    /// Authentication.
    pub auth: Arc<Auth>,
    /// The authorization server.
    pub oauth: OAuth,
    /// Aliases.
    pub aliases: Aliases,
    /// The DKIM keys.
    pub dkim: Arc<latchmail_dkim::Keys>,
    /// The module manager.
    pub module_manager: Arc<ModuleManager>,
    /// The pages of the main listener.
    pub pages: Pages,
    /// The routes, the rate limits and the settings of the main listener.
    pub http: HttpState<Self>,
}

impl App {
    /// Returns the reason why this host should get no further requests, although the database and
    /// the mail server can be reached. Returns `None` if the host is ready.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub(crate) async fn not_ready(
        &self,
    ) -> Result<Option<&'static str>, latchmail_directory::Error> {
        if self.is_stopping() {
            return Ok(Some("stopping"));
        }
        if self.module_manager.problems().is_empty() {
            return Ok(None);
        }
        // If every other host also has a problem with a module, this host stays ready: a host with
        // some modules is better than no host.
        let hosts = self.directory.hosts.list().await?;
        let mut others = hosts.iter().filter(|host| host.id != self.host_id);
        Ok(others
            .any(|host| host.problem.is_none())
            .then_some("modules"))
    }
}

impl State for App {
    type Credential = ParsedCredential;

    fn http(&self) -> &HttpState<Self> {
        &self.http
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    async fn parse_credential(
        &self,
        headers: &HeaderMap,
        client: IpAddr,
    ) -> Result<(ParsedCredential, Option<Key>), Failure> {
        let credential = self.auth.parse_credential(headers, client).await?;
        let key = credential.key();
        Ok((credential, key))
    }

    fn parse_basic_credential(
        &self,
        headers: &HeaderMap,
    ) -> Result<(ParsedCredential, Option<Key>), Failure> {
        let credential = self.auth.parse_basic_credential(headers)?;
        let key = credential.key();
        Ok((credential, key))
    }

    fn ended_credentials(&self) -> Option<&EndedCredentials> {
        Some(self.mail.connections.ended_credentials())
    }

    fn error_page(&self, rejection: Rejection) -> Result<Response, Rejection> {
        (self.pages.error)(self, &rejection)
    }

    fn agent_key(&self, credential: &ParsedCredential) -> Option<Key> {
        credential.agent_key()
    }

    async fn authenticate(&self, credential: ParsedCredential) -> Result<Caller, Failure> {
        self.auth.authenticate(credential).await
    }

    async fn redeem_ticket(
        &self,
        method: &str,
        path: &str,
        ticket: &str,
    ) -> Result<Option<HeaderValue>, Failure> {
        self.auth.tickets.redeem(method, path, ticket).await
    }

    fn used_from(&self, caller: &Caller, client: IpAddr) {
        self.auth.used_from(caller, client);
    }

    async fn check_administrator(&self, caller: &Caller, is_change: bool) -> Result<(), Failure> {
        let Credential::Session { sid } = &caller.credential else {
            return Err(Failure::forbidden(codes::SESSION_REQUIRED, SESSION_ONLY));
        };
        self.auth
            .administrators
            .check_administrator_session(&caller.account, sid, is_change)
            .await
    }

    async fn switch_mailbox(&self, caller: Caller, mailbox: &str) -> Result<Caller, Failure> {
        self.auth.switch_mailbox(caller, mailbox).await
    }
}
