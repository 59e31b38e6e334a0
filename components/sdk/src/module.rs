//! Modules and their routes.

use latchmail_shape::{AGENT, API_TOKEN, APP_PASSWORD, Code, OAUTH, SESSION, codes};
use utoipa::openapi::OpenApi;

use crate::bindings::exports::latchmail::host::module as wit;
use crate::capability::Scope;
use crate::description;
use crate::failure::Failure;
use crate::message::{Reply, Request};
use crate::scope;

/// The number of routes for which a module allocates memory at once.
const ROUTES: usize = 64;

/// Default rate-limit bucket of a route.
const DEFAULT_BUCKET: &str = "modules";

/// A function that processes a request with the host's capabilities and returns the response.
pub type Handler<H> = fn(&H, &Request) -> Result<Reply, Failure>;

/// A kind of credential, and the scope that the kind needs.
type Accepted = (&'static str, Option<Scope>);

/// The callers that a route accepts. This type needs no memory on the heap, because the list of
/// routes is created again for each request.
#[derive(Clone, Copy)]
enum Access {
    Public,
    /// The accepted kinds of credentials. There are four kinds.
    Credentials([Option<Accepted>; 4]),
}

impl Access {
    /// Accepts one or two kinds of credentials.
    const fn of(first: Accepted, second: Option<Accepted>) -> Self {
        Self::Credentials([Some(first), second, None, None])
    }

    /// Adds a kind of credential with the scope that API tokens need. Does nothing if API tokens
    /// are not accepted or need no scope.
    fn add(&mut self, kind: &'static str) {
        let Self::Credentials(accepted) = self else {
            return;
        };
        let mut kinds = accepted.iter().flatten();
        let token = kinds.find(|(kind, _)| *kind == API_TOKEN).copied();
        let free = accepted.iter_mut().find(|entry| entry.is_none());
        if let (Some((_, Some(scope))), Some(free)) = (token, free) {
            *free = Some((kind, Some(scope)));
        }
    }
}

impl From<&Access> for wit::Access {
    fn from(access: &Access) -> Self {
        match access {
            Access::Public => Self::Public,
            Access::Credentials(accepted) => {
                let accepted = accepted
                    .iter()
                    .flatten()
                    .map(|(kind, scope)| wit::Accepted {
                        kind: (*kind).into(),
                        scope: scope.map(|scope| scope::name(scope).into()),
                    });
                Self::Credentials(accepted.collect())
            }
        }
    }
}

/// A route and its handler. The fields are `&'static str` and not `String`, because the list of
/// routes is created again for each request.
#[derive(Clone)]
pub struct Route<H> {
    operation: &'static str,
    access: Access,
    bucket: &'static str,
    max_body: u32,
    body: wit::BodyForm,
    blob_fields: Vec<&'static str>,
    /// The deadline in milliseconds.
    deadline: u32,
    handler: Handler<H>,
}

impl<H> Route<H> {
    /// Creates a route for an operation. The module's API description contains the operation's
    /// method and path. By default, the route needs a web session, accepts no body and has a
    /// deadline of 30 seconds.
    #[must_use]
    pub fn new(operation: &'static str, handler: Handler<H>) -> Self {
        Self {
            operation,
            access: Access::of((SESSION, None), None),
            bucket: DEFAULT_BUCKET,
            max_body: 0,
            body: wit::BodyForm::Bytes,
            blob_fields: Vec::new(),
            deadline: 30_000,
            handler,
        }
    }

    /// Accepts a body of at most `bytes` bytes.
    #[must_use]
    pub fn takes(mut self, bytes: u32) -> Self {
        self.max_body = bytes;
        self
    }

    /// Accepts a body of at most `bytes` bytes, which stays in the host. [`Request::take_blob`]
    /// with the index 0 returns the body.
    #[must_use]
    pub fn takes_blob(mut self, bytes: u32) -> Self {
        self.body = wit::BodyForm::Blob;
        self.takes(bytes)
    }

    /// Declares a base64 field of the JSON body as a blob field. The host decodes the field and
    /// stores the bytes in the host. In the body, the host replaces the value of the field with an
    /// index for [`Request::take_blob`]. `pointer` is a JSON pointer in which `*` matches any array
    /// index.
    #[must_use]
    pub fn blob_field(mut self, pointer: &'static str) -> Self {
        self.blob_fields.push(pointer);
        self
    }

    /// Keeps the body of requests in the host as a blob. [`Request::take_blob`] with index 0
    /// returns the body. Such a route cannot have blob fields.
    #[must_use]
    pub fn blob_body(mut self) -> Self {
        self.body = wit::BodyForm::Blob;
        self
    }

    /// Sets the deadline in seconds. The deadline includes the time of calls to the host.
    #[must_use]
    pub fn within(mut self, seconds: u32) -> Self {
        self.deadline = seconds.saturating_mul(1000);
        self
    }

    /// Allows API tokens with the scope `scope`, in addition to web sessions.
    #[must_use]
    pub fn scoped(mut self, scope: Scope) -> Self {
        self.access = Access::of((SESSION, None), Some((API_TOKEN, Some(scope))));
        self
    }

    /// Allows OAuth access tokens with the scope of the route, in addition to web sessions and API
    /// tokens. Does nothing unless [`Route::scoped`] was already called.
    #[must_use]
    pub fn with_oauth(self) -> Self {
        self.with(OAUTH)
    }

    /// Allows app passwords with HTTP Basic authentication, if app passwords have the scope of the
    /// route. App passwords have the scopes of mail. Does nothing unless [`Route::scoped`] was
    /// already called.
    #[must_use]
    pub fn with_app_passwords(self) -> Self {
        self.with(APP_PASSWORD)
    }

    /// Adds a kind of credential with the scope that API tokens need.
    fn with(mut self, kind: &'static str) -> Self {
        self.access.add(kind);
        self
    }

    /// Allows web sessions, API tokens, OAuth access tokens and app passwords with any scopes. The
    /// host's functions check the scopes.
    #[must_use]
    pub fn any_credential(mut self) -> Self {
        let kinds = [SESSION, API_TOKEN, OAUTH, APP_PASSWORD];
        self.access = Access::Credentials(kinds.map(|kind| Some((kind, None))));
        self
    }

    /// Allows only OAuth access tokens. Routes for agents need this access.
    #[must_use]
    pub fn oauth(mut self) -> Self {
        self.access = Access::of((AGENT, None), None);
        self
    }

    /// Allows all clients. No credential is required.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.access = Access::Public;
        self
    }

    /// Sets the rate-limit bucket. A bucket is a key of `[limits]` in the configuration. The
    /// default is `modules`.
    #[must_use]
    pub fn bucket(mut self, bucket: &'static str) -> Self {
        self.bucket = bucket;
        self
    }
}

/// The name, the routes and the API description of a module.
#[derive(Clone)]
pub struct Module<H> {
    name: &'static str,
    version: &'static str,
    description: fn() -> OpenApi,
    codes: Vec<Code>,
    routes: Vec<Route<H>>,
}

impl<H> Module<H> {
    /// Creates a module without routes. `description` returns the API description with the
    /// operation id, the method and the path of each route. The function `description` is called
    /// only if the host requests the manifest.
    #[must_use]
    pub fn new(name: &'static str, version: &'static str, description: fn() -> OpenApi) -> Self {
        Self {
            name,
            version,
            description,
            codes: Vec::new(),
            routes: Vec::with_capacity(ROUTES),
        }
    }

    /// Declares an error code that only this module uses. The API description lists the code.
    /// [`crate::codes`] need no declaration.
    #[must_use]
    pub fn code(mut self, code: Code) -> Self {
        self.codes.push(code);
        self
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
            let (method, path) = match operations.get(route.operation) {
                Some((method, path)) => (*method, (*path).into()),
                None => ("GET", String::new()),
            };
            let blob_fields = route.blob_fields.iter().map(|field| (*field).into());
            wit::Route {
                method: method.into(),
                path,
                operation: route.operation.into(),
                access: (&route.access).into(),
                bucket: route.bucket.into(),
                max_body: route.max_body,
                body: route.body,
                blob_fields: blob_fields.collect(),
                deadline: route.deadline,
                options: Vec::new(),
            }
        });
        wit::Manifest {
            name: self.name.into(),
            version: self.version.into(),
            routes: routes.collect(),
            description: description::fragment(&description, &self.codes),
            options: Vec::new(),
        }
    }

    /// Processes a request for `operation`. Returns 404 if no route has this operation. The host
    /// requests only operations that the manifest contains.
    #[must_use]
    pub fn serve(&self, host: &H, operation: &str, request: &Request) -> Reply {
        let route = self
            .routes
            .iter()
            .find(|route| route.operation == operation);
        let response = match route {
            Some(route) => (route.handler)(host, request),
            None => Err(Failure::not_found(codes::NOT_FOUND, "Not found")),
        };
        response.unwrap_or_else(Reply::from)
    }
}
