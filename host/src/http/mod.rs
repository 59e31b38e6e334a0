//! The service's surface: the server, the router, the host's own routes, the API description.
//!
//! A request comes in here, is refused as early as it can be, goes to a handler of the host or to a module, and its answer goes out
//! here. What a route does is not decided here.
//!
//! | | |
//! |---|---|
//! | [`server`] | accepts connections, and ends them all in good order |
//! | `peers`, `descriptors` | how many connections: of one client, and at all |
//! | `connection`, `wire`, `boundary` | one connection: hyper, its time limits, its requests one by one, and the end of it |
//! | [`pipeline`] | one request from its headers to its answer |
//! | `framing`, [`body`] | what a head must hold, and the body that follows it |
//! | [`router`], [`openapi`] | the table of routes and the description that follows from it |
//! | [`message`], `shape` | a request as a handler sees it, and its answer |
//! | [`admin`] | modules changed while the service runs, by administrators and over the operator's socket |
//! | [`service`] | health, readiness, the description |

mod accepting;
pub mod access;
pub mod admin;
mod answer;
pub mod auth;
pub mod body;
mod body_memory;
mod boundary;
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
pub mod router;
pub mod server;
pub mod service;
#[cfg(test)]
pub(crate) mod testing;
mod wire;

use std::fmt;
use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use http::{HeaderMap, HeaderValue};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caller::Caller;
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::error::{Failure, StartError};
use crate::limits::{Key, Limits};
use body_memory::BodyMemory;
use client::Proxies;
use cors::Cors;
pub use message::{Reply, Request};
pub use openapi::About;
pub use router::{Handler, HostRoute, Part, Table};
pub use server::{Running, serve};

/// What the surface needs of the service behind it: [`crate::app::App`], or a test's stand-in for it.
pub trait State: Sized + Send + Sync + 'static {
    /// A credential, before anybody was asked whether it is still good.
    type Credential: Send;

    /// The surface's own part of it.
    fn http(&self) -> &Http<Self>;

    /// The credential of a request with these headers, as far as it can be told without asking anybody, and whose budget its
    /// requests count towards, where it proves by itself that this service gave it out.
    ///
    /// # Errors
    /// 401 where there is no credential or none that can be used; 429 if the client sent too many that were made up.
    fn recognise(
        &self,
        headers: &HeaderMap,
        client: IpAddr,
    ) -> Result<(Self::Credential, Option<Key>), Failure>;

    /// Who presents this credential.
    ///
    /// # Errors
    /// 401 where it is no longer any good.
    fn authenticate(
        &self,
        credential: Self::Credential,
    ) -> impl Future<Output = Result<Caller, Failure>> + Send;

    /// Whose budget a credential's requests to the agent endpoint are counted towards, where it proves by itself that this service gave it out.
    fn agent_key(&self, _credential: &Self::Credential) -> Option<Key> {
        None
    }

    /// The caller in somebody else's mailbox, by its id.
    ///
    /// # Errors
    /// 404 where there is no such mailbox, or it is not shared with the caller.
    fn enter(
        &self,
        _caller: Caller,
        _mailbox: &str,
    ) -> impl Future<Output = Result<Caller, Failure>> + Send {
        ready(Err(Failure::no_mailbox()))
    }
}

/// The surface's part of a service.
pub struct Http<S> {
    /// The budgets of credentials and clients.
    pub limits: Limits,
    table: ArcSwap<Table<S>>,
    config: config::Http,
    /// The memory for request bodies.
    bodies: Arc<BodyMemory>,
    clock: Clock,
    cors: Cors,
    proxies: Proxies,
    /// What a client of the agent endpoint is told that has no token.
    agent_challenge: HeaderValue,
    /// The same for a client whose token is not valid there.
    agent_invalid_token: HeaderValue,
    /// Changes that are under way, whether or not their clients still wait.
    tasks: TaskTracker,
    /// Ends whatever a shutdown's grace was not enough for.
    cut: CancellationToken,
}

impl<S> Http<S> {
    /// A surface with these routes; it takes no requests before [`serve`].
    ///
    /// # Errors
    /// A sentence that names what in the configuration cannot be used.
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
                .map_err(|_| StartError::new("`base_url` holds what an address cannot hold"))
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
            tasks: TaskTracker::new(),
            cut: CancellationToken::new(),
        })
    }

    /// The routes as they stand.
    #[must_use]
    pub fn table(&self) -> Guard<Arc<Table<S>>> {
        self.table.load()
    }

    /// Puts other routes in their place. Requests under way finish with those they were routed by.
    pub fn replace(&self, table: Table<S>) {
        self.table.store(Arc::new(table));
    }
}

impl About {
    /// The service as its configuration names it.
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
