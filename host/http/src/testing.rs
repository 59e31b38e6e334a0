//! A small service for tests of the HTTP server, with its own routes. The bearer token of a request
//! is the id of a session, token or grant. The prefix of the id, such as `session-`, is the kind of
//! the credential.

use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::{HeaderMap, Method, header};
use latchmail_core::caller::{Audience, Caller, Credential, MailCredential, Scope};
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::codes;
use latchmail_core::config::Config;
use latchmail_core::error::Failure;
use latchmail_core::limits::Key;
pub(crate) use latchmail_runtime::modules::testing::route;
use latchmail_runtime::modules::{Access, Route};
use serde_json::{Value, json};

use crate::message::{self, Content, Request, Response};
use crate::openapi::info::ApiInfo;
use crate::rejection::Rejection;
use crate::route_group::{Handler, RouteGroup, Target};
use crate::router::RouteTable;
use crate::state::{HttpState, State};

/// Returns a group of routes whose handlers are never called, and an API description of these
/// routes.
pub(crate) fn group<S: 'static>(owner: &str, routes: Vec<Route>) -> RouteGroup<S> {
    let handler: Handler<S> = |_, _| Box::pin(async { message::success() });
    group_with_handlers(
        owner,
        routes.into_iter().map(|route| (route, handler)).collect(),
    )
}

/// Returns a group of routes with the given handlers, and an API description of these routes.
pub(crate) fn group_with_handlers<S>(
    owner: &str,
    routes: Vec<(Route, Handler<S>)>,
) -> RouteGroup<S> {
    let mut paths = json!({});
    for (route, _) in &routes {
        let method = route.method.as_str().to_lowercase();
        paths[&route.path][method] = json!({ "responses": { "200": { "description": "done" } } });
    }
    RouteGroup {
        owner: owner.into(),
        routes: routes
            .into_iter()
            .map(|(route, handler)| (route, Target::Host(handler)))
            .collect(),
        description: json!({ "paths": paths, "components": {} }),
    }
}

/// Returns a caller without administrator rights.
pub(crate) fn caller(credential: Credential) -> Caller {
    Caller {
        account: "account-1".into(),
        address: "a@example.org".into(),
        admin: false,
        credential,
        mail: MailCredential::app_password(
            "c".into(),
            "a@example.org".into(),
            String::new().into(),
        ),
        grant: None,
        shared: None,
    }
}

/// A service with the routes of a test.
pub(crate) struct TestService {
    http: HttpState<Self>,
    pub(crate) stopping: AtomicBool,
    pub(crate) clock: Clock,
    /// The permits of the handlers of `/wait`. Each handler waits for one permit.
    pub(crate) gate: tokio::sync::Semaphore,
    /// One permit for each handler of `/wait` that has started.
    pub(crate) started: tokio::sync::Semaphore,
    /// One permit for each handler of `/wait` that has finished.
    pub(crate) finished: tokio::sync::Semaphore,
    /// The number of lookups of credentials.
    pub(crate) lookups: AtomicUsize,
}

impl TestService {
    pub(crate) fn with(config: &str, routes: Vec<(Route, Handler<Self>)>) -> Arc<Self> {
        let config = Config::parse(config, "test", std::collections::HashMap::new()).unwrap();
        let clock = Clock::manual(Timestamp::from_millis(1_795_161_600_000));
        let group = group_with_handlers("the host", routes);
        let table = RouteTable::build(&ApiInfo::from_config(&config), vec![group]).unwrap();
        Arc::new(Self {
            http: HttpState::new(&config, clock.clone(), table).unwrap(),
            stopping: AtomicBool::new(false),
            clock,
            gate: tokio::sync::Semaphore::new(0),
            started: tokio::sync::Semaphore::new(0),
            finished: tokio::sync::Semaphore::new(0),
            lookups: AtomicUsize::new(0),
        })
    }
}

impl State for TestService {
    type Credential = String;

    fn http(&self) -> &HttpState<Self> {
        &self.http
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn error_page(&self, rejection: Rejection) -> Result<Response, Rejection> {
        let mut response = message::json(rejection.status, &json!({ "page": rejection.text }))?;
        response.headers.extend(rejection.headers);
        Ok(response)
    }

    async fn parse_credential(
        &self,
        headers: &HeaderMap,
        _client: IpAddr,
    ) -> Result<(String, Option<Key>), Failure> {
        let credential = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let id = credential.unwrap_or_default().to_owned();
        // Credentials with these prefixes prove that the service issued them. The prefix `ended-`
        // marks a credential that is no longer valid.
        let key = ["session-", "ended-"]
            .iter()
            .any(|prefix| id.starts_with(prefix))
            .then(|| Key::Session(id.as_str().into()));
        Ok((id, key))
    }

    async fn authenticate(&self, id: String) -> Result<Caller, Failure> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let credential = match id.split('-').next().unwrap_or_default() {
            "session" => Credential::Session { sid: id },
            "token" => Credential::ApiToken {
                id,
                scopes: vec![Scope::MailRead],
            },
            "grant" => Credential::OAuth {
                id,
                audience: Audience::Service,
                scopes: vec![Scope::MailRead],
            },
            "broken" => panic!("broken credential"),
            _ => {
                return Err(Failure::unauthorized(
                    codes::INVALID_API_TOKEN,
                    "Invalid API token",
                ));
            }
        };
        Ok(caller(credential))
    }
}

/// Returns the routes that most tests use.
pub(crate) fn routes() -> Vec<(Route, Handler<TestService>)> {
    let public = |method: Method, path: &str, max_body| Route {
        max_body,
        ..route(method.as_str(), path)
    };
    let with_credential = |path: &str, access| Route {
        access,
        bucket: "search".into(),
        max_body: 1000,
        ..route("POST", path)
    };
    let sign_in = |path: &str| Route {
        bucket: "sign_in".into(),
        max_body: 1000,
        ..route("POST", path)
    };
    let counted = |path: &str, max_body| Route {
        bucket: "admin".into(),
        ..public(Method::POST, path, max_body)
    };
    let verifies_body = |path: &str| Route {
        verifies_body: true,
        ..public(Method::POST, path, 1000)
    };
    let page = |path: &str| Route {
        is_page: true,
        ..sign_in(path)
    };
    let scoped = Access::Scoped {
        scope: Scope::MailSend,
        oauth: true,
    };
    vec![
        (public(Method::GET, "/echo/{value}", 0), |_, r| {
            Box::pin(ready(echo(r)))
        }),
        (counted("/echo", 100_000), |_, r| Box::pin(ready(echo(r)))),
        (public(Method::GET, "/panic", 0), |_, _| {
            Box::pin(async { panic!("on purpose") })
        }),
        (public(Method::POST, "/panic", 0), |_, _| {
            Box::pin(async { panic!("on purpose") })
        }),
        (public(Method::GET, "/wait", 0), |s, _| Box::pin(wait(s))),
        (public(Method::POST, "/wait", 0), |s, _| Box::pin(wait(s))),
        (public(Method::GET, "/large", 0), |_, _| {
            Box::pin(ready(Ok(large())))
        }),
        (with_credential("/session", Access::Session), |_, r| {
            Box::pin(ready(echo(r)))
        }),
        (with_credential("/send", scoped), |_, r| {
            Box::pin(ready(echo(r)))
        }),
        (with_credential("/agent", Access::OAuth), |_, r| {
            Box::pin(ready(echo(r)))
        }),
        (sign_in("/login"), |_, r| Box::pin(ready(echo(r)))),
        (verifies_body("/token"), |_, r| Box::pin(ready(verify(r)))),
        (page("/page"), |_, r| Box::pin(ready(verify(r)))),
    ]
}

/// A handler that verifies the credential in the body. Only the body `valid` is a valid credential.
fn verify(request: &Request) -> Result<Response, Rejection> {
    if request.body != "valid" {
        return Err(Rejection::bad_request(codes::INVALID_FIELD, "invalid"));
    }
    request.set_verified();
    message::success()
}

/// The size of a response that does not fit into the buffers of a socket, in bytes.
pub(crate) const LARGE: usize = 32 * 1024 * 1024;

fn large() -> Response {
    let bytes = bytes::Bytes::from(vec![b'x'; LARGE]);
    Response {
        status: http::StatusCode::OK,
        headers: HeaderMap::new(),
        body: Content::Bytes(bytes),
    }
}

async fn wait(state: &TestService) -> Result<Response, Rejection> {
    state.started.add_permits(1);
    state.gate.acquire().await.unwrap().forget();
    state.finished.add_permits(1);
    message::success()
}

fn echo(request: &Request) -> Result<Response, Rejection> {
    let received: Value = json!({
        "path": request.path,
        "query": request.query,
        "body": String::from_utf8_lossy(&request.body),
        "client": request.client,
        "account": request.caller.as_ref().map(|caller| &caller.account),
    });
    message::json(http::StatusCode::OK, &received)
}
