//! Groups of routes with their API description. The host has several groups, and each module has
//! one group. [`crate::router`] combines the groups to the route table.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::{Access, BodyForm, Module, Route};
use serde_json::Value;

use crate::message::{Request, Response};
use crate::rejection::Rejection;

/// The default time limit of a request to a route of the host.
const DEADLINE: Duration = Duration::from_secs(30);

/// The future of a handler's response.
pub type HandlerFuture<'a> = Pin<Box<dyn Future<Output = Result<Response, Rejection>> + Send + 'a>>;

/// A handler of the host.
///
/// To use an `async fn action(&S, &Request) -> Result<Response, Rejection>` as a handler, write
/// `|state, request| Box::pin(action(state, request))`.
pub type Handler<S> = for<'a> fn(&'a S, &'a Request) -> HandlerFuture<'a>;

/// A route of the host with its handler.
pub struct HostRoute<S> {
    /// The route.
    pub route: Route,
    /// The handler.
    pub handler: Handler<S>,
}

/// The handler or the module of a route.
pub enum Target<S> {
    /// A handler of the host.
    Host(Handler<S>),
    /// A module.
    Module(Arc<Module>),
}

/// The routes of one owner, with their API description.
pub struct RouteGroup<S> {
    /// The owner's name in errors, for example `the host` or `module mail`.
    pub owner: String,
    /// The routes and their targets.
    pub routes: Vec<(Route, Target<S>)>,
    /// The API description of the routes: an object with `paths` and `components`. `null` if the
    /// routes are pages of the host that are not part of the API.
    pub description: Value,
}

impl<S> RouteGroup<S> {
    /// Creates a group of routes of the host.
    ///
    /// # Errors
    /// Returns an error if the description cannot be serialized.
    pub fn host(
        routes: Vec<HostRoute<S>>,
        description: &utoipa::openapi::OpenApi,
    ) -> Result<Self, StartError> {
        let description = serde_json::to_value(description).map_err(|error| {
            StartError::new(format!(
                "cannot serialize the host's API description: {error}"
            ))
        })?;
        let routes = routes
            .into_iter()
            .map(|HostRoute { route, handler }| (route, Target::Host(handler)))
            .collect();
        Ok(Self {
            owner: "the host".into(),
            routes,
            description,
        })
    }

    /// Creates a group with the routes that a module declared.
    #[must_use]
    pub fn module(module: &Arc<Module>) -> Self {
        let manifest = module.manifest();
        Self {
            owner: format!("module {}", manifest.name),
            routes: manifest
                .routes
                .iter()
                .map(|route| (route.clone(), Target::Module(Arc::clone(module))))
                .collect(),
            description: manifest.description.clone(),
        }
    }
}

/// Returns a public route of the host without a request body and without a rate limit.
#[must_use]
pub fn host_route(method: Method, path: &str, operation: &str) -> Route {
    Route {
        method,
        path: path.into(),
        operation: operation.into(),
        access: Access::Public,
        bucket: String::new(),
        max_body: 0,
        body: BodyForm::Bytes,
        blob_fields: Vec::new(),
        deadline: DEADLINE,
        is_page: false,
        verifies_body: false,
    }
}
