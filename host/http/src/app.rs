//! The state that the host's handlers share, and the routes of the service.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use latchmail_accounts::auth::{Auth, ParsedCredential};
use latchmail_core::caller::Caller;
use latchmail_core::clock::Clock;
use latchmail_core::config::Config;
use latchmail_core::error::{Failure, StartError};
use latchmail_core::limits::Key;
use latchmail_directory::Directory;
use latchmail_mailbox::Mail;
use latchmail_mailbox::outbox::Outbox;
use latchmail_oauth::OAuth;
use latchmail_runtime::manager::{ModuleManager, Router};
use latchmail_runtime::modules::Module;

use crate::{About, Http, Part, State, Table};

/// The state that the host's handlers share.
#[derive(Debug)]
pub struct App {
    /// The configuration.
    pub config: Config,
    /// The time.
    pub clock: Clock,
    /// The directory.
    pub directory: Directory,
    /// Mailboxes.
    pub mail: Arc<Mail>,
    /// Outbound mail.
    pub outbox: Arc<Outbox>,
    /// Authentication.
    pub auth: Arc<Auth>,
    /// The authorization server.
    pub oauth: OAuth,
    /// The DKIM keys.
    pub dkim: Arc<latchmail_dkim::Keys>,
    /// The module manager.
    pub module_manager: ModuleManager,
    /// The routes, the rate limits, and the other steps of handling a request.
    pub http: Http<Self>,
}

impl State for App {
    type Credential = ParsedCredential;

    fn http(&self) -> &Http<Self> {
        &self.http
    }

    fn parse_credential(
        &self,
        headers: &HeaderMap,
        client: IpAddr,
    ) -> Result<(ParsedCredential, Option<Key>), Failure> {
        let credential = self.auth.parse_credential(headers, client)?;
        let key = credential.key();
        Ok((credential, key))
    }

    fn agent_key(&self, credential: &ParsedCredential) -> Option<Key> {
        credential.agent_key()
    }

    async fn authenticate(&self, credential: ParsedCredential) -> Result<Caller, Failure> {
        self.auth.authenticate(credential).await
    }

    async fn enter(&self, caller: Caller, mailbox: &str) -> Result<Caller, Failure> {
        self.auth.switch_mailbox(caller, mailbox).await
    }
}

impl Router for App {
    fn check(&self, modules: &[Arc<Module>]) -> Result<(), StartError> {
        Table::check(&About::of(&self.config), parts(&self.config, modules)?)
    }

    fn prepare<'a>(
        &'a self,
        modules: &[Arc<Module>],
    ) -> Result<Box<dyn FnOnce() + Send + 'a>, StartError> {
        let table = Table::build(&About::of(&self.config), parts(&self.config, modules)?)?;
        Ok(Box::new(move || self.http.replace(table)))
    }
}

/// Returns the route groups of the service and of modules.
///
/// # Errors
/// Returns an error if a module declares an invalid route.
pub fn parts(config: &Config, modules: &[Arc<Module>]) -> Result<Vec<Part<App>>, StartError> {
    let mut parts = vec![
        crate::service::part()?,
        crate::auth::part()?,
        crate::admin::part("admin")?,
        crate::oauth::resource_part()?,
    ];
    if config.oauth.listen.is_none() && config.oauth.introspection.is_none() {
        parts.push(crate::oauth::part()?);
    }
    parts.extend(modules.iter().map(Part::module));
    Ok(parts)
}
