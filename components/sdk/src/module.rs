//! A module as a list of routes with their handlers.

use utoipa::openapi::OpenApi;

use crate::bindings::exports::latchmail::host::module as wit;
use crate::capability::Scope;
use crate::description;
use crate::failure::Failure;
use crate::message::{Reply, Request};

/// Default rate-limit bucket of a route.
const DEFAULT_BUCKET: &str = "modules";

/// A handler: a function that receives the capabilities and the request, and returns the response.
pub type Handler<H> = fn(&H, &Request) -> Result<Reply, Failure>;

/// A route and its handler.
#[derive(Clone)]
pub struct Route<H> {
    wit: wit::Route,
    handler: Handler<H>,
}

impl<H> Route<H> {
    /// Creates the route of an operation. The module's API description contains the method and the path of the operation. By default, the route needs a web
    /// session, accepts no body and has a deadline of 30 seconds.
    #[must_use]
    pub fn new(operation: &str, handler: Handler<H>) -> Self {
        Self {
            wit: wit::Route {
                // `Module::manifest` sets the method and the path.
                method: wit::Method::Get,
                path: String::new(),
                operation: operation.into(),
                access: wit::Access::Session,
                bucket: DEFAULT_BUCKET.into(),
                max_body: 0,
                body: wit::BodyForm::Bytes,
                blob_fields: Vec::new(),
                deadline: 30_000,
            },
            handler,
        }
    }

    /// Accepts a body of at most this number of bytes.
    #[must_use]
    pub fn takes(mut self, bytes: u32) -> Self {
        self.wit.max_body = bytes;
        self
    }

    /// Declares a blob field: a base64 field of the JSON body that the host decodes. The decoded bytes stay in the host, and the host replaces the field with
    /// an index for [`Request::take_blob`]. `pointer` is a JSON pointer in which `*` stands for any index.
    #[must_use]
    pub fn blob_field(mut self, pointer: &str) -> Self {
        self.wit.blob_fields.push(pointer.into());
        self
    }

    /// Sets the deadline in seconds. It includes the time of calls to the host.
    #[must_use]
    pub fn within(mut self, seconds: u32) -> Self {
        self.wit.deadline = seconds.saturating_mul(1000);
        self
    }

    /// Allows API tokens with the scope `scope`, in addition to web sessions.
    #[must_use]
    pub fn scoped(mut self, scope: Scope) -> Self {
        self.wit.access = wit::Access::Scoped(wit::ScopedAccess {
            scope,
            oauth: false,
        });
        self
    }

    /// Also allows OAuth access tokens with the scope of the route. Does nothing unless [`Route::scoped`] was called before.
    #[must_use]
    pub fn with_oauth(mut self) -> Self {
        if let wit::Access::Scoped(scoped) = &mut self.wit.access {
            scoped.oauth = true;
        }
        self
    }

    /// Allows only OAuth access tokens, for routes of agents.
    #[must_use]
    pub fn oauth(mut self) -> Self {
        self.wit.access = wit::Access::Oauth;
        self
    }

    /// Allows every client, without a credential.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.wit.access = wit::Access::Public;
        self
    }

    /// Sets the rate-limit bucket, a key of the configuration's `[limits]`. The default is `modules`.
    #[must_use]
    pub fn bucket(mut self, bucket: &str) -> Self {
        self.wit.bucket = bucket.into();
        self
    }
}

/// A module: its name, its routes and their API description.
#[derive(Clone)]
pub struct Module<H> {
    name: String,
    version: String,
    description: fn() -> OpenApi,
    routes: Vec<Route<H>>,
}

impl<H> Module<H> {
    /// Creates a module without routes. `description` returns the API description, which contains the operation id, the method and the path of each route. The
    /// function is called only when the host requests the manifest.
    #[must_use]
    pub fn new(name: &str, version: &str, description: fn() -> OpenApi) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            description,
            routes: Vec::new(),
        }
    }

    /// Adds a route.
    #[must_use]
    pub fn route(mut self, route: Route<H>) -> Self {
        self.routes.push(route);
        self
    }

    /// Returns the manifest, with which the module describes itself to the host. A route whose operation is not in the API description has an empty path, so no
    /// host accepts the module.
    #[must_use]
    pub fn manifest(&self) -> wit::Manifest {
        let description = (self.description)();
        let operations = description::operations(&description);
        let routes = self.routes.iter().map(|route| {
            let mut route = route.wit.clone();
            if let Some((method, path)) = operations.get(&*route.operation) {
                route.method = *method;
                route.path = (*path).into();
            }
            route
        });
        wit::Manifest {
            name: self.name.clone(),
            version: self.version.clone(),
            routes: routes.collect(),
            description: description::fragment(&description),
        }
    }

    /// Serves a request of `operation`. Returns 404 if no route has this operation. The host requests only operations of the manifest.
    #[must_use]
    pub fn serve(&self, host: &H, operation: &str, request: &Request) -> Reply {
        let route = self.routes.iter().find(|r| r.wit.operation == operation);
        let response = match route {
            Some(route) => (route.handler)(host, request),
            None => Err(Failure::not_found("Not found")),
        };
        response.unwrap_or_else(Reply::from)
    }
}
