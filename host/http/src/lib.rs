//! The HTTP server, the router, the host's own routes and the API description.
//!
//! The server rejects an invalid request as early as possible, passes a valid one to a handler of the host or to a module, and sends the response. The
//! behavior of the modules' routes is not defined here.
//!
//! | | |
//! |---|---|
//! | [`server`] | accepts connections and shuts down gracefully |
//! | `peers`, `descriptors` | limits on connections, per client and in total |
//! | `connection`, `stream` | one connection: hyper, timeouts, the bytes of heads, and the close |
//! | [`pipeline`] | one request, from its headers to its response |
//! | `framing`, [`body`] | checks of a request's head, and its body |
//! | [`router`], [`openapi`] | the table of routes and the API description |
//! | [`message`] | requests and responses of handlers |
//! | [`admin`] | changes of modules at run time, by administrators and over the operator's socket |
//! | [`service`] | health, readiness and the API description |

mod accepting;
pub mod access;
pub mod admin;
mod answer;
mod app;
pub mod auth;
pub mod body;
mod body_memory;
pub mod client;
mod connection;
pub mod cors;
mod descriptors;
mod fields;
mod framing;
pub mod message;
pub mod module;
pub mod oauth;
pub mod openapi;
pub mod outgoing;
mod peers;
pub mod pipeline;
pub mod query;
mod rate_limit;
pub mod rejection;
pub mod router;
pub mod server;
pub mod service;
mod stream;
#[cfg(test)]
pub(crate) mod testing;

use std::fmt;
use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use http::{HeaderMap, HeaderValue};
use latchmail_core::caller::Caller;
use latchmail_core::changes::Changes;
use latchmail_core::clock::Clock;
use latchmail_core::config::{self, Config};
use latchmail_core::error::{Failure, StartError};
use latchmail_core::limits::{Key, Limits};
use tokio_util::sync::CancellationToken;

pub use app::{App, parts};
use body_memory::BodyMemory;
use client::Proxies;
use cors::Cors;
pub use message::{Request, Response};
pub use openapi::About;
pub use router::{Handler, HostRoute, Part, Table};
pub use server::{Running, serve};

/// The service behind the HTTP server: [`crate::App`], or a substitute in tests.
pub trait State: Sized + Send + Sync + 'static {
    /// A parsed credential that is not verified yet.
    type Credential: Send;

    /// Returns the state of the HTTP server.
    fn http(&self) -> &Http<Self>;

    /// Parses the credential of a request, without any look-up. Also returns the rate-limit key of the credential if the credential itself proves that this
    /// service issued it.
    ///
    /// # Errors
    /// Returns 401 if the credential is missing or unusable, and 429 if the client sent too many forged credentials.
    fn parse_credential(
        &self,
        headers: &HeaderMap,
        client: IpAddr,
    ) -> Result<(Self::Credential, Option<Key>), Failure>;

    /// Verifies a credential and returns the caller.
    ///
    /// # Errors
    /// Returns 401 if the credential is no longer valid.
    fn authenticate(
        &self,
        credential: Self::Credential,
    ) -> impl Future<Output = Result<Caller, Failure>> + Send;

    /// Returns the rate-limit key of a credential for requests to the agent endpoint if the credential itself proves that this service issued it.
    fn agent_key(&self, _credential: &Self::Credential) -> Option<Key> {
        None
    }

    /// Switches the caller to a shared mailbox with an id.
    ///
    /// # Errors
    /// Returns 404 if the mailbox does not exist or is not shared with the caller.
    fn enter(
        &self,
        _caller: Caller,
        _mailbox: &str,
    ) -> impl Future<Output = Result<Caller, Failure>> + Send {
        ready(Err(Failure::no_mailbox()))
    }
}

/// The state of the HTTP server.
pub struct Http<S> {
    /// The rate limits of credentials and clients.
    pub limits: Limits,
    table: ArcSwap<Table<S>>,
    config: config::Http,
    /// The memory for request bodies.
    bodies: Arc<BodyMemory>,
    clock: Clock,
    cors: Cors,
    proxies: Proxies,
    /// The challenge of the agent endpoint for a request without a token.
    agent_challenge: HeaderValue,
    /// The challenge of the agent endpoint for a request with an invalid token.
    agent_invalid_token: HeaderValue,
    /// The changes in progress, including those whose clients have disconnected.
    changes: Changes,
    /// Aborts what is not finished when the grace period of a shutdown ends.
    cut: CancellationToken,
}

impl<S> Http<S> {
    /// Creates the state with a table of routes. [`serve`] starts the server.
    ///
    /// # Errors
    /// Returns an error that names the invalid setting of the configuration.
    pub fn new(config: &Config, clock: Clock, table: Table<S>) -> Result<Self, StartError> {
        for (key, value) in [
            ("max_connections", config.http.max_connections),
            ("connections_per_client", config.http.connections_per_client),
            ("body_memory", config.http.body_memory),
        ] {
            if value == 0 {
                return Err(StartError::new(format!("`http.{key}` must be at least 1")));
            }
        }
        let metadata = format!("{}/.well-known/oauth-protected-resource", config.base_url());
        let challenge = |error: &str| {
            HeaderValue::try_from(format!("Bearer resource_metadata=\"{metadata}\"{error}"))
                .map_err(|_| {
                    StartError::new("`base_url` contains characters that are not allowed in a URL")
                })
        };
        Ok(Self {
            limits: Limits::new(&config.limits, clock.clone())?,
            table: ArcSwap::from_pointee(table),
            bodies: Arc::new(BodyMemory::new(config.http.body_memory)),
            config: config.http.clone(),
            clock,
            cors: Cors::parse(&config.cors_origins)?,
            proxies: Proxies::parse(&config.http.trusted_proxies)?,
            agent_challenge: challenge("")?,
            agent_invalid_token: challenge(", error=\"invalid_token\"")?,
            changes: Changes::default(),
            cut: CancellationToken::new(),
        })
    }

    /// Returns the current routes.
    #[must_use]
    pub fn table(&self) -> Guard<Arc<Table<S>>> {
        self.table.load()
    }

    /// Replaces the routes. Requests in progress finish with the routes that they started with.
    pub fn replace(&self, table: Table<S>) {
        self.table.store(Arc::new(table));
    }
}

impl About {
    /// Returns the properties of the service from its configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            title: config.service_name.clone(),
            base_url: config.base_url(),
            auth_url: config.auth_url(),
            agents_send: config.mcp.send_tool,
        }
    }
}

impl<S> fmt::Debug for Http<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}
