//! The separate listener of the authorization server, at the address `oauth.listen`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderMap;
use latchmail_accounts::auth::ParsedCredential;
use latchmail_core::caller::Caller;
use latchmail_core::config::Config;
use latchmail_core::error::{Failure, StartError};
use latchmail_core::limits::Key;
use latchmail_http::ApiInfo;
use latchmail_http::App;
use latchmail_http::RouteTable;
use latchmail_http::message::Response;
use latchmail_http::oauth::{self, OAuthState};
use latchmail_http::rejection::Rejection;
use latchmail_http::serve;
use latchmail_http::{HttpState, State};
use latchmail_transport::tls::Tls;
use latchmail_transport::{Listener, Running};

use super::page::error_page;
use super::routes::{callback_route_group, route_group};

/// The running authorization server on the separate listener. Dropping this value does not end the
/// server. [`AuthorizationServer::stop`] ends the server.
#[must_use = "the server runs until it is stopped"]
pub struct AuthorizationServer {
    running: Running,
    state: Arc<ListenerState>,
}

impl AuthorizationServer {
    /// Applies the settings that can change while the server runs.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid. In this case, no setting changes.
    pub fn reload(&self, config: &Config) -> Result<(), StartError> {
        self.state.http.reload(config)
    }

    /// Stops the server like [`Running::stop`].
    pub async fn stop(self) {
        self.running.stop().await;
    }
}

impl fmt::Debug for AuthorizationServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationServer")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

/// The state of the authorization server's listener.
struct ListenerState {
    app: Arc<App>,
    http: HttpState<Self>,
}

impl OAuthState for ListenerState {
    fn app(&self) -> &App {
        &self.app
    }
}

impl State for ListenerState {
    type Credential = ParsedCredential;

    fn http(&self) -> &HttpState<Self> {
        &self.http
    }

    fn is_stopping(&self) -> bool {
        self.app.is_stopping()
    }

    fn error_page(&self, rejection: Rejection) -> Result<Response, Rejection> {
        error_page(&self.app, &rejection)
    }

    async fn parse_credential(
        &self,
        headers: &HeaderMap,
        client: IpAddr,
    ) -> Result<(ParsedCredential, Option<Key>), Failure> {
        self.app.parse_credential(headers, client).await
    }

    async fn authenticate(&self, credential: ParsedCredential) -> Result<Caller, Failure> {
        self.app.authenticate(credential).await
    }
}

/// Starts an HTTP server for the authorization server on the separate listener. `tls` are the TLS
/// settings of the service.
///
/// # Errors
/// Returns an error if the address cannot be used, or if the state of the server cannot be created.
pub async fn listen(
    app: &Arc<App>,
    address: SocketAddr,
    tls: Option<&Arc<Tls>>,
) -> Result<AuthorizationServer, StartError> {
    let listener = Listener::bind(&address.into(), "oauth.listen").await?;
    let mut groups = vec![oauth::route_group()?, route_group()?];
    if app.config.sign_in.uses_provider() {
        groups.push(callback_route_group()?);
    }
    let table = RouteTable::build(&ApiInfo::from_config(&app.config), groups)?;
    let state = Arc::new(ListenerState {
        http: HttpState::new(&app.config, app.clock.clone(), table)?
            .with_limits(&app.http.limits)
            .with_tracer(app.http.tracer.clone()),
        app: Arc::clone(app),
    });
    Ok(AuthorizationServer {
        running: serve(&state, vec![listener.with_tls(tls)]),
        state,
    })
}
