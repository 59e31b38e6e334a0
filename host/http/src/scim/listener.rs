//! The listener of SCIM, at the address `scim.listen`. Without this setting, the listener of the
//! operator's page has the routes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use latchmail_accounts::auth::ParsedOperatorToken;
use latchmail_core::caller::Caller;
use latchmail_core::config::{Config, Listen};
use latchmail_core::error::{Failure, StartError};
use latchmail_core::limits::Key;
use latchmail_transport::tls::Tls;
use latchmail_transport::{Listener, Running};

use super::{render_error, route_group};
use crate::app::App;
use crate::message::{Request, Response};
use crate::openapi::info::ApiInfo;
use crate::provisioning::OperatorState;
use crate::provisioning::request::origin_url;
use crate::rejection::Rejection;
use crate::router::RouteTable;
use crate::server::serve;
use crate::state::{HttpState, State};

/// The state of the listener.
struct ScimState {
    app: Arc<App>,
    http: HttpState<Self>,
    has_tls: bool,
}

impl State for ScimState {
    type Credential = ParsedOperatorToken;

    fn http(&self) -> &HttpState<Self> {
        &self.http
    }

    fn is_stopping(&self) -> bool {
        self.app.is_stopping()
    }

    async fn parse_credential(
        &self,
        headers: &HeaderMap,
        _client: IpAddr,
    ) -> Result<(ParsedOperatorToken, Option<Key>), Failure> {
        let token = self.app.auth.operator_tokens.parse(headers)?;
        let key = token.key();
        Ok((token, key))
    }

    async fn authenticate(&self, token: ParsedOperatorToken) -> Result<Caller, Failure> {
        self.app.auth.operator_tokens.authenticate(&token).await
    }

    fn render_error(&self, path: &str, rejection: Rejection) -> Result<Response, Rejection> {
        render_error(path, rejection)
    }
}

impl OperatorState for ScimState {
    fn app(&self) -> &App {
        &self.app
    }

    fn description(&self) -> Bytes {
        self.http.table().description()
    }

    fn origin_url(&self, request: &Request) -> String {
        origin_url(request, self.has_tls)
    }
}

/// The running server of SCIM. Dropping this value does not end the server. [`ScimServer::stop`]
/// ends the server.
#[must_use = "the server runs until it is stopped"]
pub struct ScimServer {
    running: Running,
    state: Arc<ScimState>,
}

impl ScimServer {
    /// Returns the address of the listener.
    #[must_use]
    pub fn address(&self) -> Option<&Listen> {
        self.running.addresses().first()
    }

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

impl fmt::Debug for ScimServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScimServer")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

/// Starts the server of SCIM. `tls` are the TLS settings of the service.
///
/// # Errors
/// Returns an error if the address cannot be used, or if the state of the server cannot be created.
pub async fn listen(
    app: &Arc<App>,
    address: SocketAddr,
    tls: Option<&Arc<Tls>>,
) -> Result<ScimServer, StartError> {
    let listener = Listener::bind(&address.into(), "scim.listen").await?;
    let table = RouteTable::build(&ApiInfo::from_config(&app.config), vec![route_group()])?;
    let mut config = app.config.clone();
    // Identity providers call SCIM from their servers, not from pages.
    config.cors_origins.clear();
    config.http.proxy_protocol = false;
    let state = Arc::new(ScimState {
        http: HttpState::new(&config, app.clock.clone(), table)?
            .with_shared_limits(app.http.limits.shared(), "scim")
            .with_tracer(app.http.tracer.clone()),
        app: Arc::clone(app),
        has_tls: tls.is_some(),
    });
    Ok(ScimServer {
        running: serve(&state, vec![listener.with_tls(tls)]),
        state,
    })
}
