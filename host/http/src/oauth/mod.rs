//! The authorization server's endpoints and pages, and the metadata by which agents find the server (specification, sections 4.9 and 5). The rules of the
//! protocols are in [`latchmail_oauth`].
//!
//! The endpoints return JSON as the protocols define it: `error` is a code (RFC 6749, section 5.2). The pages are HTML. By default the server uses the
//! service's listener. With `oauth.listen` it has a listener of its own.

mod device;
mod form;
mod metadata;
mod page;
mod register;
mod resource;
mod sign_in;
mod token;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use latchmail_accounts::auth::ParsedCredential;
use latchmail_core::caller::Caller;
use latchmail_core::error::{Failure, StartError};
use latchmail_core::limits::Key;
use latchmail_oauth::error::{Error, Refusal};
use latchmail_runtime::modules::{Access, BodyForm, Route};
use serde::Serialize;
use utoipa::OpenApi;

use super::message::{Request, Response};
use super::router::{HostRoute, Part, Table};
use super::{About, Http, Running, State};
use crate::App;
use crate::message;
use crate::rejection::Rejection;

/// The maximum size of a form or a registration, in bytes.
const LARGEST_BODY: usize = 64 * 1024;

/// The time limit of a request.
const DEADLINE: Duration = Duration::from_secs(30);

/// The state of a listener that serves these routes: the app itself, or the separate listener of `oauth.listen`.
pub trait Serving: State {
    /// The service.
    fn app(&self) -> &App;
}

impl Serving for App {
    fn app(&self) -> &App {
        self
    }
}

/// The state of the separate listener.
struct Apart {
    app: Arc<App>,
    http: Http<Self>,
}

impl Serving for Apart {
    fn app(&self) -> &App {
        &self.app
    }
}

impl State for Apart {
    type Credential = ParsedCredential;

    fn http(&self) -> &Http<Self> {
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

#[derive(OpenApi)]
#[openapi(
    paths(
        metadata::authorization_server,
        register::register_client,
        token::exchange_token,
        device::begin_device,
        device::show_device,
        device::submit_device,
        sign_in::show_sign_in,
        sign_in::submit_sign_in,
    ),
    tags((name = "Authorization", description = "Authorization of agents by the owner of a mailbox (OAuth 2.1)"))
)]
struct Description;

#[derive(OpenApi)]
#[openapi(
    paths(resource::protected_resource, resource::protected_agent_endpoint),
    tags((name = "Authorization"))
)]
struct ResourceDescription;

/// Returns the routes that name the authorization server of the agent endpoint.
///
/// # Errors
/// Returns an error if the API description cannot be written.
pub fn resource_part() -> Result<Part<App>, StartError> {
    Part::host(
        vec![
            HostRoute {
                route: uncounted(Method::GET, resource::PATH, "protectedResource"),
                handler: |app, _| Box::pin(resource::protected_resource(app)),
            },
            HostRoute {
                route: uncounted(Method::GET, resource::AGENT_PATH, "protectedAgentEndpoint"),
                handler: |app, _| Box::pin(resource::protected_agent_endpoint(app)),
            },
        ],
        &ResourceDescription::openapi(),
    )
}

/// Returns the routes of the authorization server.
///
/// # Errors
/// Returns an error if the API description cannot be written.
pub fn part<S: Serving>() -> Result<Part<S>, StartError> {
    Part::host(
        vec![
            HostRoute {
                route: uncounted(Method::GET, metadata::PATH, "authorizationServer"),
                handler: |s, _| Box::pin(metadata::authorization_server(s.app())),
            },
            HostRoute {
                route: route(Method::POST, register::PATH, "registerClient"),
                handler: |s, r| Box::pin(register::register_client(s.app(), r)),
            },
            HostRoute {
                route: uncounted(Method::POST, token::PATH, "exchangeToken"),
                handler: |s, r| Box::pin(token::exchange_token(s.app(), r)),
            },
            HostRoute {
                route: route(Method::POST, device::PATH, "beginDevice"),
                handler: |s, r| Box::pin(device::begin_device(s.app(), r)),
            },
            HostRoute {
                route: uncounted(Method::GET, device::PAGE, "showDevice"),
                handler: |s, r| Box::pin(device::show_device(s.app(), r)),
            },
            HostRoute {
                route: uncounted(Method::POST, device::PAGE, "submitDevice"),
                handler: |s, r| Box::pin(device::submit_device(s.app(), r)),
            },
            HostRoute {
                route: uncounted(Method::GET, sign_in::PATH, "showSignIn"),
                handler: |s, r| Box::pin(sign_in::show_sign_in(s.app(), r)),
            },
            HostRoute {
                route: uncounted(Method::POST, sign_in::PATH, "submitSignIn"),
                handler: |s, r| Box::pin(sign_in::submit_sign_in(s.app(), r)),
            },
        ],
        &Description::openapi(),
    )
}

/// Serves the authorization server on a separate listener.
///
/// # Errors
/// Returns an error if the address cannot be used or the server cannot be built.
pub async fn listen(app: &Arc<App>, address: SocketAddr) -> Result<Running, StartError> {
    let listener = tokio::net::TcpListener::bind(address).await.map_err(|e| {
        StartError::new(format!("cannot listen on {address} (`oauth.listen`): {e}"))
    })?;
    let table = Table::build(&About::of(&app.config), vec![part()?])?;
    let apart = Arc::new(Apart {
        http: Http::new(&app.config, app.clock.clone(), table)?,
        app: Arc::clone(app),
    });
    super::serve(&apart, listener)
}

fn route(method: Method, path: &str, operation: &str) -> Route {
    Route {
        path: path.to_owned(),
        operation: operation.to_owned(),
        access: Access::Public,
        bucket: "oauth".into(),
        max_body: if method == Method::POST {
            LARGEST_BODY
        } else {
            0
        },
        body: BodyForm::Bytes,
        blob_fields: Vec::new(),
        deadline: DEADLINE,
        method,
    }
}

/// Creates a route that the pipeline does not count. Either its response is the same for all clients, or its handler counts the request ([`page::within`],
/// [`token::exchange_token`]).
fn uncounted(method: Method, path: &str, operation: &str) -> Route {
    Route {
        bucket: String::new(),
        ..route(method, path, operation)
    }
}

/// Returns a JSON response that must not be cached.
fn answer<T: Serialize>(status: StatusCode, value: &T) -> Result<Response, Rejection> {
    let reply = message::json(status, value)?;
    Ok(reply.with(header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

/// Converts an error of the protocol to a response. `basic` states whether the client sent an Authorization header.
fn refused(error: Error, basic: bool) -> Result<Response, Rejection> {
    let refusal: Refusal = match error {
        Error::Refused(refusal) => refusal,
        Error::Failed(failure) => return Err(failure.into()),
    };
    // RFC 6749, section 5.2.
    let status = match refusal.code {
        "invalid_client" => StatusCode::UNAUTHORIZED,
        _ => StatusCode::BAD_REQUEST,
    };
    let reply = answer(status, &refusal)?;
    if status == StatusCode::UNAUTHORIZED && basic {
        let challenge = HeaderValue::from_static("Basic realm=\"oauth\"");
        return Ok(reply.with(header::WWW_AUTHENTICATE, challenge));
    }
    Ok(reply)
}

/// Returns all fields of a request's form (`application/x-www-form-urlencoded` of the URL Standard).
fn form(request: &Request) -> Result<Vec<(String, String)>, Refusal> {
    let media = request.headers.get(header::CONTENT_TYPE);
    let media = media.and_then(|media| media.to_str().ok()).unwrap_or("");
    let media = media.split(';').next().unwrap_or("").trim();
    if !media.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Refusal::request(
            "The body must be application/x-www-form-urlencoded",
        ));
    }
    let body = std::str::from_utf8(&request.body).ok();
    body.and_then(|body| super::query::pairs(body).ok())
        .ok_or_else(|| Refusal::request("The body must be a form in UTF-8"))
}
