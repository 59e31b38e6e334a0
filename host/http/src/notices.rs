//! The separate listener for the notices of the mail server, at the address `events.listen`. It has
//! only the route `POST /notices/{key}`. The requests are not logged, because the key is in the
//! path and a notice contains addresses and subjects. A request with another key counts as a failed
//! attempt of its client.

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use latchmail_core::codes;
use latchmail_core::error::{Failure, StartError};
use latchmail_events::{MAX_NOTICE, Notices};
use latchmail_runtime::modules::{Content, Route};
use latchmail_transport::{Listener, Running};
use utoipa::OpenApi;

use crate::app::App;
use crate::message::{Request, Response};
use crate::openapi::info::ApiInfo;
use crate::rejection::Rejection;
use crate::route_group::{HostRoute, RouteGroup, host_route};
use crate::router::RouteTable;
use crate::server;
use crate::state::{HttpState, State};

const PATH: &str = "/notices/{key}";

#[derive(OpenApi)]
#[openapi(paths(receive))]
struct Description;

/// The state of the listener.
struct NoticesState {
    notices: Arc<Notices>,
    http: HttpState<Self>,
}

impl State for NoticesState {
    type Credential = ();

    fn http(&self) -> &HttpState<Self> {
        &self.http
    }
}

/// Starts the HTTP server for notices. It has no TLS.
///
/// # Errors
/// Returns an error if the address cannot be used, or if the state of the server cannot be created.
pub async fn listen(
    app: &Arc<App>,
    notices: Arc<Notices>,
    address: SocketAddr,
) -> Result<Running, StartError> {
    let listener = Listener::bind(&address.into(), "events.listen").await?;
    let mut config = app.config.clone();
    // The mail server connects without the proxy.
    config.http.proxy_protocol = false;
    let table = RouteTable::build(&ApiInfo::from_config(&config), vec![route_group()?])?;
    let http = HttpState::new(&config, app.clock.clone(), table)?.uncounted();
    let state = Arc::new(NoticesState { notices, http });
    Ok(server::serve(&state, vec![listener]))
}

fn route_group() -> Result<RouteGroup<NoticesState>, StartError> {
    let route = HostRoute {
        route: Route {
            max_body: MAX_NOTICE,
            verifies_body: true,
            ..host_route(Method::POST, PATH, "receiveNotice")
        },
        handler: |state, request| Box::pin(ready(receive(state, request))),
    };
    RouteGroup::host(vec![route], &Description::openapi())
}

/// Receive a notice
///
/// Receives a notice of the mail server about a change of a mailbox.
#[utoipa::path(
    post,
    path = "/notices/{key}",
    operation_id = "receiveNotice",
    tag = "Service",
    params(("key" = String, Path, description = "The key of notices")),
    request_body(content = String, content_type = "application/json"),
    responses((status = 204, description = "The notice was received"))
)]
fn receive(state: &NoticesState, request: &Request) -> Result<Response, Rejection> {
    let key = request.path.iter().find(|(name, _)| name == "key");
    if !key.is_some_and(|(_, key)| state.notices.has_key(key)) {
        let text = "There is no such route";
        return Err(Failure::not_found(codes::ROUTE_NOT_FOUND, text).into());
    }
    request.set_verified();
    if !state.notices.receive(&request.body) {
        let text = "Invalid JSON body";
        return Err(Failure::invalid(codes::INVALID_JSON_BODY, text).into());
    }
    Ok(Response {
        status: StatusCode::NO_CONTENT,
        headers: HeaderMap::new(),
        body: Content::Bytes(Bytes::new()),
    })
}
