//! Modules and their routes.

use utoipa::openapi::OpenApi;

use crate::bindings::exports::latchmail::host::module as wit;
use crate::capability::Scope;
use crate::description;
use crate::failure::Failure;
use crate::message::{Reply, Request};

/// Default rate-limit bucket of a route.
const DEFAULT_BUCKET: &str = "modules";

/// A function that processes a request with the host's capabilities and returns the response.
pub type Handler<H> = fn(&H, &Request) -> Result<Reply, Failure>;

/// A route and its handler.
#[derive(Clone)]
pub struct Route<H> {
    wit: wit::Route,
    handler: Handler<H>,
}

impl<H> Route<H> {
    /// Creates a route for an operation. The module's API description contains the operation's
    /// method and path. By default, the route needs a web session, accepts no body and has a
    /// deadline of 30 seconds.
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

    /// Accepts a body of at most `bytes` bytes.
    #[must_use]
    pub fn takes(mut self, bytes: u32) -> Self {
        self.wit.max_body = bytes;
        self
    }

    /// Declares a base64 field of the JSON body as a blob field. The host decodes the field and
    /// stores the bytes in the host. In the body, the host replaces the value of the field with an
    /// index for [`Request::take_blob`]. `pointer` is a JSON pointer in which `*` matches any array
    /// index.
    #[must_use]
    pub fn blob_field(mut self, pointer: &str) -> Self {
        self.wit.blob_fields.push(pointer.into());
        self
    }

    /// Sets the deadline in seconds. The deadline includes the time of calls to the host.
    #[must_use]
    pub fn within(mut self, seconds: u32) -> Self {
        self.wit.deadline = seconds.saturating_mul(1000);
        self
    }

    /// Also allows API tokens with the scope `scope`.
    #[must_use]
    pub fn scoped(mut self, scope: Scope) -> Self {
        self.wit.access = wit::Access::Scoped(wit::ScopedAccess {
            scope,
            oauth: false,
        });
        self
    }

    /// Also allows OAuth access tokens with the scope of the route. Does nothing unless
    /// [`Route::scoped`] was already called.
    #[must_use]
    pub fn with_oauth(mut self) -> Self {
        if let wit::Access::Scoped(scoped) = &mut self.wit.access {
            scoped.oauth = true;
        }
        self
    }

    /// Allows only OAuth access tokens. Routes for agents need this access.
    #[must_use]
    pub fn oauth(mut self) -> Self {
        self.wit.access = wit::Access::Oauth;
        self
    }

    /// Allows all clients. No credential is required.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.wit.access = wit::Access::Public;
        self
    }

    /// Sets the rate-limit bucket. A bucket is a key of `[limits]` in the configuration. The
    /// default is `modules`.
    #[must_use]
    pub fn bucket(mut self, bucket: &str) -> Self {
        self.wit.bucket = bucket.into();
        self
    }
}

/// The name, the routes and the API description of a module.
#[derive(Clone)]
pub struct Module<H> {
    name: String,
    version: String,
    description: fn() -> OpenApi,
    routes: Vec<Route<H>>,
}

impl<H> Module<H> {
    /// Creates a module without routes. `description` returns the API description with the
    /// operation id, the method and the path of each route. The function `description` is called
    /// only if the host requests the manifest.
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

    /// Returns the manifest, which describes the module for the host. If the API description lacks
    /// an operation, the operation's route has an empty path. No host accepts such a manifest.
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

    /// Processes a request for `operation`. Returns 404 if no route has this operation. The host
    /// requests only operations that the manifest contains.
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
