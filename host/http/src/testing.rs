//! A small service for tests of the HTTP server, with its own routes. The credentials are the names of the callers.

use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, Method, header};
use latchmail_core::caller::{Audience, Caller, Credential, MailCredential, Scope};
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config::Config;
use latchmail_core::error::Failure;
use latchmail_core::limits::Key;
pub(crate) use latchmail_runtime::modules::testing::route;
use latchmail_runtime::modules::{Access, Route};
use serde_json::{Value, json};

use super::router::{Handler, Part, Target};
use super::{About, Http, State, Table};
use crate::message;
use crate::rejection::Rejection;

/// Returns a part with routes that are not called, and a matching description.
pub(crate) fn part<S: 'static>(owner: &str, routes: Vec<Route>) -> Part<S> {
    let handler: Handler<S> = |_, _| Box::pin(async { message::success() });
    served(
        owner,
        routes.into_iter().map(|route| (route, handler)).collect(),
    )
}

/// Returns a part with routes and their handlers, and a matching description.
pub(crate) fn served<S>(owner: &str, routes: Vec<(Route, Handler<S>)>) -> Part<S> {
    let mut paths = json!({});
    for (route, _) in &routes {
        let method = route.method.as_str().to_lowercase();
        paths[&route.path][method] = json!({ "responses": { "200": { "description": "done" } } });
    }
    Part {
        owner: owner.into(),
        routes: routes
            .into_iter()
            .map(|(route, handler)| (route, Target::Host(handler)))
            .collect(),
        description: json!({ "paths": paths, "components": {} }),
    }
}

/// A service with given routes.
pub(crate) struct Small {
    http: Http<Self>,
    pub(crate) clock: Clock,
    /// The semaphore that waiting handlers acquire.
    pub(crate) gate: tokio::sync::Semaphore,
    /// Has one permit for each handler that started.
    pub(crate) entered: tokio::sync::Semaphore,
    /// Has one permit for each handler that finished.
    pub(crate) finished: tokio::sync::Semaphore,
    /// The number of credentials that were looked up.
    pub(crate) looked_up: AtomicUsize,
}

impl Small {
    pub(crate) fn with(config: &str, routes: Vec<(Route, Handler<Self>)>) -> Arc<Self> {
        let config = Config::parse(config, "test", std::collections::HashMap::new()).unwrap();
        let clock = Clock::manual(Timestamp::from_millis(1_795_161_600_000));
        let part = served("the host", routes);
        let table = Table::build(&About::of(&config), vec![part]).unwrap();
        Arc::new(Self {
            http: Http::new(&config, clock.clone(), table).unwrap(),
            clock,
            gate: tokio::sync::Semaphore::new(0),
            entered: tokio::sync::Semaphore::new(0),
            finished: tokio::sync::Semaphore::new(0),
            looked_up: AtomicUsize::new(0),
        })
    }
}

impl State for Small {
    type Credential = String;

    fn http(&self) -> &Http<Self> {
        &self.http
    }

    fn parse_credential(
        &self,
        headers: &HeaderMap,
        _client: IpAddr,
    ) -> Result<(String, Option<Key>), Failure> {
        let presented = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let id = presented.unwrap_or_default().to_owned();
        // Credentials with these prefixes prove that the service issued them, including ended ones.
        let key = ["session-", "ended-"]
            .iter()
            .any(|proven| id.starts_with(proven))
            .then(|| Key::Session(id.as_str().into()));
        Ok((id, key))
    }

    async fn authenticate(&self, id: String) -> Result<Caller, Failure> {
        self.looked_up.fetch_add(1, Ordering::Relaxed);
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
            "broken" => panic!("the credential broke it"),
            _ => return Err(Failure::unauthorized("Invalid API token")),
        };
        Ok(Caller {
            account: "account-1".into(),
            address: "a@example.org".into(),
            admin: false,
            credential,
            mail: MailCredential::app_password(
                "c".into(),
                "a@example.org".into(),
                String::new().into(),
            ),
            shared: None,
        })
    }
}

/// Returns the routes that most tests use.
pub(crate) fn routes() -> Vec<(Route, Handler<Small>)> {
    let public = |method: Method, path: &str, max_body| Route {
        max_body,
        ..route(method.as_str(), path)
    };
    let guarded = |path: &str, access| Route {
        access,
        bucket: "search".into(),
        max_body: 1000,
        ..route("POST", path)
    };
    let limited = |path: &str| Route {
        bucket: "sign_in".into(),
        max_body: 1000,
        ..route("POST", path)
    };
    let scoped = Access::Scoped {
        scope: Scope::MailSend,
        oauth: true,
    };
    vec![
        (public(Method::GET, "/echo/{value}", 0), |_, r| {
            Box::pin(ready(echo(r)))
        }),
        (public(Method::POST, "/echo", 100_000), |_, r| {
            Box::pin(ready(echo(r)))
        }),
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
        (guarded("/session", Access::Session), |_, r| {
            Box::pin(ready(echo(r)))
        }),
        (guarded("/send", scoped), |_, r| Box::pin(ready(echo(r)))),
        (guarded("/agent", Access::OAuth), |_, r| {
            Box::pin(ready(echo(r)))
        }),
        (limited("/login"), |_, r| Box::pin(ready(echo(r)))),
    ]
}

/// The size of a response that exceeds the buffers of a socket, in bytes.
pub(crate) const LARGE: usize = 32 * 1024 * 1024;

fn large() -> super::Response {
    let bytes = bytes::Bytes::from(vec![b'x'; LARGE]);
    super::Response {
        status: http::StatusCode::OK,
        headers: HeaderMap::new(),
        body: latchmail_runtime::modules::Content::Bytes(bytes),
    }
}

async fn wait(state: &Small) -> Result<super::Response, Rejection> {
    state.entered.add_permits(1);
    state.gate.acquire().await.unwrap().forget();
    state.finished.add_permits(1);
    message::success()
}

fn echo(request: &super::Request) -> Result<super::Response, Rejection> {
    let seen: Value = json!({
        "path": request.path,
        "query": request.query,
        "body": String::from_utf8_lossy(&request.body),
        "client": request.client,
        "account": request.caller.as_ref().map(|caller| &caller.account),
    });
    message::json(http::StatusCode::OK, &seen)
}
