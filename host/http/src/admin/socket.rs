//! The HTTP server on the operator's Unix socket. It has the routes of module administration. The
//! command `latchmail module …` uses the socket.
//!
//! Requests need no credential. Instead, the service accepts only connections from processes of
//! root or of the service's own user.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use latchmail_core::caller::{Caller, Credential, MailCredential, Origin};
use latchmail_core::error::{Failure, StartError};
use latchmail_core::limits::Key;
use latchmail_transport::private_socket::{self, CLIENT, PrivateSocket};
use secrecy::SecretString;

use super::routes::route_group;
use super::state::AdminState;
use crate::app::App;
use crate::message::Request;
use crate::openapi::info::ApiInfo;
use crate::router::RouteTable;
use crate::server::StateHandler;
use crate::state::{HttpState, State};

/// The state of the HTTP server on the socket.
struct SocketState {
    app: Arc<App>,
    http: HttpState<Self>,
}

impl State for SocketState {
    type Credential = ();

    fn http(&self) -> &HttpState<Self> {
        &self.http
    }

    async fn parse_credential(
        &self,
        _headers: &HeaderMap,
        _client: IpAddr,
    ) -> Result<((), Option<Key>), Failure> {
        // If this function returned no key, requests would count towards the limit for unproven
        // credentials. The key has no other effect, because the routes on this socket have no rate
        // limit.
        Ok(((), Some(Key::client(CLIENT))))
    }

    async fn authenticate(&self, (): ()) -> Result<Caller, Failure> {
        Ok(operator())
    }

    async fn check_administrator(&self, _: &Caller, _: bool) -> Result<(), Failure> {
        Ok(())
    }
}

impl AdminState for SocketState {
    fn app(&self) -> &App {
        &self.app
    }

    fn origin(&self, request: &Request) -> Origin {
        Origin {
            request: Some(request.id.clone()),
            ..Origin::operator()
        }
    }
}

/// Starts the server on the socket at `admin.socket`. Returns `None` if no path is configured.
///
/// # Errors
/// Returns an error if the path cannot be used or another service uses the socket.
pub async fn listen(app: &Arc<App>) -> Result<Option<PrivateSocket>, StartError> {
    let path = &app.config.admin.socket;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let table = RouteTable::build(&ApiInfo::from_config(&app.config), vec![route_group("")?])?;
    let state = Arc::new(SocketState {
        http: HttpState::new(&app.config, app.clock.clone(), table)?
            .with_tracer(app.http.tracer.clone()),
        app: Arc::clone(app),
    });
    let running = private_socket::serve(StateHandler(state), path).await;
    running.map(Some).map_err(|reason| {
        StartError::new(format!(
            "`admin.socket` {} cannot be used: {reason}",
            path.display()
        ))
    })
}

/// Returns the operator, who is the caller of all requests. The operator has no account and is
/// authorized for all routes of the socket.
fn operator() -> Caller {
    let name = "operator";
    Caller {
        account: name.into(),
        address: name.into(),
        admin: true,
        credential: Credential::Session { sid: name.into() },
        mail: MailCredential::app_password(String::new(), String::new(), SecretString::default()),
        grant: None,
        shared: None,
    }
}
