//! The separate listener of the authorization server, at the address `oauth.listen`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderMap;
use latchmail_accounts::auth::ParsedCredential;
use latchmail_core::caller::Caller;
use latchmail_core::error::{Failure, StartError};
use latchmail_core::limits::Key;

use super::routes::route_group;
use super::state::OAuthState;
use crate::app::App;
use crate::listener::Listener;
use crate::openapi::info::ApiInfo;
use crate::router::RouteTable;
use crate::server::{self, Running};
use crate::state::{HttpState, State};

/// The state of the listener.
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

    fn parse_credential(
        &self,
        headers: &HeaderMap,
        client: IpAddr,
    ) -> Result<(ParsedCredential, Option<Key>), Failure> {
        self.app.parse_credential(headers, client)
    }

    async fn authenticate(&self, credential: ParsedCredential) -> Result<Caller, Failure> {
        self.app.authenticate(credential).await
    }
}

/// Starts an HTTP server for the authorization server on the separate listener.
///
/// # Errors
/// Returns an error if the address cannot be used, or if the state of the server cannot be created.
pub async fn listen(app: &Arc<App>, address: SocketAddr) -> Result<Running, StartError> {
    let listener = Listener::bind(&address.into(), "oauth.listen").await?;
    let table = RouteTable::build(&ApiInfo::from_config(&app.config), vec![route_group()?])?;
    let state = Arc::new(ListenerState {
        http: HttpState::new(&app.config, app.clock.clone(), table)?,
        app: Arc::clone(app),
    });
    Ok(server::serve(&state, vec![listener]))
}
