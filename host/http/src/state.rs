//! The state of an HTTP server: its routes, its rate limits and its settings. Each listener of the
//! service has its own state.

use std::fmt;
use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use http::{HeaderMap, HeaderValue};
use latchmail_core::caller::{Caller, SESSION_ONLY};
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::config::Config;
use latchmail_core::ended_credentials::EndedCredentials;
use latchmail_core::error::{Failure, StartError};
use latchmail_core::limits::{Key, Limits, SharedBudgets};
use latchmail_core::traces::Tracer;
use latchmail_transport::ServerState;
use latchmail_transport::body_memory::BodyMemory;
use latchmail_transport::client::TrustedProxies;

use crate::cors::Cors;
use crate::message::Response;
use crate::rejection::Rejection;
use crate::response::HSTS;
use crate::router::RouteTable;

/// The service behind an HTTP server. Implementations are [`crate::App`], the states of other
/// listeners, and substitutes in tests.
pub trait State: Sized + Send + Sync + 'static {
    /// A parsed but unverified credential.
    type Credential: Send;

    /// Returns the state of the HTTP server.
    fn http(&self) -> &HttpState<Self>;

    /// Returns whether the service is about to stop. Responses over HTTP/1 then close their
    /// connections, so that clients do not send another request on a connection that the server
    /// closes.
    fn is_stopping(&self) -> bool {
        false
    }

    /// Returns whether the server serves requests for this host. `host` is the host of the URL
    /// without the port, or an empty string if the request has no valid host. By default, a server
    /// serves every host.
    fn serves_host(&self, _host: &str) -> bool {
        true
    }

    /// Parses the credential of a request, without a lookup in the database. Also returns the
    /// rate-limit key of the credential if the form of the credential proves that this service
    /// issued the credential. By default, a server has no credentials.
    ///
    /// # Errors
    /// Returns 401 if the credential is missing or malformed, and 429 if the client has sent too
    /// many forged credentials.
    fn parse_credential(
        &self,
        _headers: &HeaderMap,
        _client: IpAddr,
    ) -> impl Future<Output = Result<(Self::Credential, Option<Key>), Failure>> + Send {
        ready(Err(no_credentials()))
    }

    /// Parses the credential of a request with HTTP Basic authentication, without a lookup in the
    /// database. Returns the same as [`Self::parse_credential`]. By default, a server has no
    /// credentials.
    ///
    /// # Errors
    /// Returns 401 if the credential is malformed.
    fn parse_basic_credential(
        &self,
        _headers: &HeaderMap,
    ) -> Result<(Self::Credential, Option<Key>), Failure> {
        Err(no_credentials())
    }

    /// Verifies a credential and returns the caller.
    ///
    /// # Errors
    /// Returns 401 if the credential is invalid.
    fn authenticate(
        &self,
        _credential: Self::Credential,
    ) -> impl Future<Output = Result<Caller, Failure>> + Send {
        ready(Err(no_credentials()))
    }

    /// Uses a ticket for a request with this method and path. Returns the value of the header
    /// `Authorization` with which the request is processed. Returns `None` if the ticket is
    /// invalid. By default, a server has no tickets.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    fn redeem_ticket(
        &self,
        _method: &str,
        _path: &str,
        _ticket: &str,
    ) -> impl Future<Output = Result<Option<HeaderValue>, Failure>> + Send {
        ready(Ok(None))
    }

    /// Records that a valid credential was used by a client. By default, a server records nothing.
    fn used_from(&self, _caller: &Caller, _client: IpAddr) {}

    /// Checks that the web session of an administrator can use the routes of administrators.
    /// `is_change` is `true` if the request can change something. By default, this function returns
    /// 403.
    ///
    /// # Errors
    /// Returns 403 if the session began without a second factor, or if a change needs a more recent
    /// sign-in.
    fn check_administrator(
        &self,
        _caller: &Caller,
        _is_change: bool,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        ready(Err(Failure::forbidden(
            codes::SESSION_REQUIRED,
            SESSION_ONLY,
        )))
    }

    /// Returns the rate-limit key for requests to the agent endpoint. Returns `None` if the form of
    /// the credential does not prove that this service issued the credential.
    fn agent_key(&self, _credential: &Self::Credential) -> Option<Key> {
        None
    }

    /// Returns the response to a failed request for a page. By default, a server has no pages.
    ///
    /// # Errors
    /// Returns `rejection` if the server has no pages.
    fn error_page(&self, rejection: Rejection) -> Result<Response, Rejection> {
        Err(rejection)
    }

    /// Returns the response to a failed request for `path`, which can have no route. By default, it
    /// is the error in the format of the API.
    ///
    /// # Errors
    /// Returns `rejection` if the response has the format of the API.
    fn render_error(&self, _path: &str, rejection: Rejection) -> Result<Response, Rejection> {
        Err(rejection)
    }

    /// Returns the registry that stops responses whose credential ends while they are sent. By
    /// default, a server has no credentials.
    fn ended_credentials(&self) -> Option<&EndedCredentials> {
        None
    }

    /// Switches the caller to the shared mailbox with the id `mailbox`.
    ///
    /// # Errors
    /// Returns 404 if the mailbox does not exist or is not shared with the caller.
    fn switch_mailbox(
        &self,
        _caller: Caller,
        _mailbox: &str,
    ) -> impl Future<Output = Result<Caller, Failure>> + Send {
        ready(Err(Failure::no_mailbox()))
    }
}

/// Returns the failure of routes that need a credential, on a server without credentials.
fn no_credentials() -> Failure {
    Failure::unauthorized(
        codes::INVALID_AUTHORIZATION_HEADER,
        "Missing or invalid Authorization header",
    )
}

/// The state of an HTTP server.
pub struct HttpState<S> {
    /// The rate limits of this server. The separate listener of the authorization server shares the
    /// rate limits of the main listener.
    pub limits: Arc<Limits>,
    table: ArcSwap<RouteTable<S>>,
    /// The settings and the state of the transport, such as timeouts and trusted proxies.
    pub(crate) server: ServerState,
    /// The memory budget for request bodies.
    pub(crate) body_memory: Arc<BodyMemory>,
    /// Begins the traces of requests.
    pub tracer: Tracer,
    /// Whether requests are counted in the metrics and logged at the level `info`.
    pub(crate) is_counted: bool,
    pub(crate) cors: Cors,
    /// The URL to which the listener `http.redirect_listen` redirects.
    pub(crate) base_url: String,
    /// The value of the header `Strict-Transport-Security` of all responses. `None` if the service
    /// itself does not use TLS.
    pub(crate) hsts: Option<HeaderValue>,
    /// Whether agents are allowed to send mail (`mcp.send_tool`).
    pub(crate) agents_send: bool,
    /// The `WWW-Authenticate` header of the agent endpoint for a request without a token.
    pub(crate) agent_challenge: HeaderValue,
    /// The `WWW-Authenticate` header of the agent endpoint for a request with an invalid token.
    pub(crate) agent_invalid_token: HeaderValue,
}

impl<S> HttpState<S> {
    /// Creates the state with a route table. [`crate::serve`] starts the server.
    ///
    /// # Errors
    /// Returns an error if a setting of the configuration is invalid.
    pub fn new(config: &Config, clock: Clock, table: RouteTable<S>) -> Result<Self, StartError> {
        let metadata = format!("{}/.well-known/oauth-protected-resource", config.base_url());
        let challenge = |error: &str| {
            HeaderValue::try_from(format!("Bearer resource_metadata=\"{metadata}\"{error}"))
                .map_err(|_| {
                    StartError::new("`base_url` contains characters that are not allowed in a URL")
                })
        };
        Ok(Self {
            limits: Arc::new(Limits::new(&config.limits, clock.clone())?),
            server: ServerState::new(config, clock)?,
            table: ArcSwap::from_pointee(table),
            body_memory: Arc::new(BodyMemory::new(config.http.body_memory)),
            tracer: Tracer::default(),
            is_counted: true,
            cors: Cors::parse(&config.cors_origins)?,
            base_url: config.base_url(),
            hsts: config.serves_tls().then_some(HSTS),
            agents_send: config.mcp.send_tool,
            agent_challenge: challenge("")?,
            agent_invalid_token: challenge(", error=\"invalid_token\"")?,
        })
    }

    /// Shares the rate limits with other hosts. Does nothing if `budgets` is `None`. `server`
    /// identifies this server, because each server of a host has its own rate limits.
    #[must_use]
    pub fn with_shared_limits(
        mut self,
        budgets: Option<&Arc<dyn SharedBudgets>>,
        server: &'static str,
    ) -> Self {
        if let Some(budgets) = budgets
            && let Some(limits) = Arc::get_mut(&mut self.limits)
        {
            limits.share(Arc::clone(budgets), server);
        }
        self
    }

    /// Replaces the rate limits with those of another server, so that requests to the two servers
    /// count towards the same limits.
    #[must_use]
    pub fn with_limits(mut self, limits: &Arc<Limits>) -> Self {
        self.limits = Arc::clone(limits);
        self
    }

    /// Excludes requests from the metrics and the log, because the requests belong to the
    /// monitoring. Errors are still logged.
    #[must_use]
    pub(crate) fn uncounted(mut self) -> Self {
        self.is_counted = false;
        self
    }

    /// Records the spans of requests with `tracer`. By default, no spans are recorded.
    #[must_use]
    pub fn with_tracer(mut self, tracer: Tracer) -> Self {
        self.tracer = tracer;
        self
    }

    /// Applies the settings that can change while the server runs: `limits` and
    /// `http.trusted_proxies`.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid. In this case, no setting changes.
    pub fn reload(&self, config: &Config) -> Result<(), StartError> {
        let trusted_proxies = TrustedProxies::parse(&config.http.trusted_proxies)?;
        self.limits.reload(&config.limits)?;
        self.server.trusted_proxies.replace(trusted_proxies);
        Ok(())
    }

    /// Returns the current route table.
    #[must_use]
    pub fn table(&self) -> Guard<Arc<RouteTable<S>>> {
        self.table.load()
    }

    /// Replaces the route table. Requests in progress finish with the previous table.
    pub fn replace(&self, table: RouteTable<S>) {
        self.table.store(Arc::new(table));
    }
}

impl<S> fmt::Debug for HttpState<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpState").finish_non_exhaustive()
    }
}
