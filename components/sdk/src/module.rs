//! A module as a list of routes, each with its handler.

use utoipa::openapi::OpenApi;

use crate::bindings::exports::latchmail::host::module as wit;
use crate::capability::Scope;
use crate::failure::Failure;
use crate::message::{Reply, Request};

/// The rate-limit area of routes that name no other.
const OWN_AREA: &str = "modules";

/// What serves a route: the capabilities and the request in, the answer out.
pub type Handler<H> = fn(&H, &Request) -> Result<Reply, Failure>;

/// A route and its handler.
#[derive(Clone)]
pub struct Route<H> {
    wit: wit::Route,
    handler: Handler<H>,
}

impl<H> Route<H> {
    /// A GET route, for a web session only until it is told otherwise; it takes no body and has 30 seconds.
    #[must_use]
    pub fn get(path: &str, operation: &str, handler: Handler<H>) -> Self {
        Self::new(wit::Method::Get, path, operation, handler)
    }

    /// A POST route; as [`Route::get`].
    #[must_use]
    pub fn post(path: &str, operation: &str, handler: Handler<H>) -> Self {
        Self::new(wit::Method::Post, path, operation, handler)
    }

    /// A PUT route; as [`Route::get`].
    #[must_use]
    pub fn put(path: &str, operation: &str, handler: Handler<H>) -> Self {
        Self::new(wit::Method::Put, path, operation, handler)
    }

    /// A PATCH route; as [`Route::get`].
    #[must_use]
    pub fn patch(path: &str, operation: &str, handler: Handler<H>) -> Self {
        Self::new(wit::Method::Patch, path, operation, handler)
    }

    /// A DELETE route; as [`Route::get`].
    #[must_use]
    pub fn delete(path: &str, operation: &str, handler: Handler<H>) -> Self {
        Self::new(wit::Method::Delete, path, operation, handler)
    }

    fn new(method: wit::Method, path: &str, operation: &str, handler: Handler<H>) -> Self {
        Self {
            wit: wit::Route {
                method,
                path: path.into(),
                operation: operation.into(),
                access: wit::Access::Session,
                area: OWN_AREA.into(),
                max_body: 0,
                body: wit::BodyForm::Bytes,
                blob_fields: Vec::new(),
                deadline: 30_000,
            },
            handler,
        }
    }

    /// Takes a body of at most so many bytes.
    #[must_use]
    pub fn takes(mut self, bytes: u32) -> Self {
        self.wit.max_body = bytes;
        self
    }

    /// The host decodes a field of the JSON body from base64 and keeps it: a JSON pointer in which `*` is any index. What stands in its place is for
    /// [`Request::take_blob`].
    #[must_use]
    pub fn blob_field(mut self, pointer: &str) -> Self {
        self.wit.blob_fields.push(pointer.into());
        self
    }

    /// May take so many seconds, what it asks of the host included.
    #[must_use]
    pub fn within(mut self, seconds: u32) -> Self {
        self.wit.deadline = seconds.saturating_mul(1000);
        self
    }

    /// Open to API tokens that hold `scope` too.
    #[must_use]
    pub fn scoped(mut self, scope: Scope) -> Self {
        self.wit.access = wit::Access::Scoped(wit::ScopedAccess {
            scope,
            oauth: false,
        });
        self
    }

    /// Open to OAuth access tokens too, where it is open to a scope.
    #[must_use]
    pub fn with_oauth(mut self) -> Self {
        if let wit::Access::Scoped(scoped) = &mut self.wit.access {
            scoped.oauth = true;
        }
        self
    }

    /// Open to OAuth access tokens and to nobody else: an agent's route.
    #[must_use]
    pub fn oauth(mut self) -> Self {
        self.wit.access = wit::Access::Oauth;
        self
    }

    /// Open to anybody.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.wit.access = wit::Access::Public;
        self
    }

    /// Counted towards this rate-limit area, a key of the configuration's `[limits]`. Until it is told otherwise a route counts towards `modules`.
    #[must_use]
    pub fn area(mut self, area: &str) -> Self {
        self.wit.area = area.into();
        self
    }
}

/// A module: its name, its routes, and their description.
#[derive(Clone)]
pub struct Module<H> {
    name: String,
    version: String,
    description: fn() -> OpenApi,
    routes: Vec<Route<H>>,
}

impl<H> Module<H> {
    /// A module without routes yet. `description` makes the description of them all, each under the same
    /// operation id; it is made only when the host asks.
    #[must_use]
    pub fn new(name: &str, version: &str, description: fn() -> OpenApi) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            description,
            routes: Vec::new(),
        }
    }

    /// The same with one more route.
    #[must_use]
    pub fn route(mut self, route: Route<H>) -> Self {
        self.routes.push(route);
        self
    }

    /// What the host is told when it asks what the module is.
    #[must_use]
    pub fn manifest(&self) -> wit::Manifest {
        wit::Manifest {
            name: self.name.clone(),
            version: self.version.clone(),
            routes: self.routes.iter().map(|route| route.wit.clone()).collect(),
            description: crate::description::fragment(&(self.description)()),
        }
    }

    /// Serves one request of `operation`. The host asks for operations of the manifest only; any other is answered 404.
    #[must_use]
    pub fn serve(&self, host: &H, operation: &str, request: &Request) -> Reply {
        let route = self.routes.iter().find(|r| r.wit.operation == operation);
        let answer = match route {
            Some(route) => (route.handler)(host, request),
            None => Err(Failure::not_found("Not found")),
        };
        answer.unwrap_or_else(Reply::from)
    }
}
