//! Changes of modules at run time: the routes under `/api/v1/admin/modules` for administrators, and the same routes over a Unix socket for the operator
//! ([`socket`]). The changes and their rules are in [`latchmail_runtime::manager`].

mod change;
mod inspect;
mod install;
mod list;
mod log;
pub mod socket;

use std::future::ready;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use latchmail_core::caller::Origin;
use latchmail_core::error::{Failure, StartError};
use latchmail_runtime::manager;
use latchmail_runtime::modules::{Access, BodyForm, Route};
use serde::Deserialize;
use utoipa::{OpenApi, ToSchema};

use super::router::{HostRoute, Part};
use super::{Request, State};
use crate::App;
use crate::rejection::Rejection;

/// The maximum total size of the components of a request, in MiB.
pub const LARGEST_COMPONENTS_MIB: u64 = 95;

/// The maximum size of a body: the components in base64, and the JSON around them.
const LARGEST_BODY: usize = 128 * 1024 * 1024;

/// The maximum size of a body without components.
const SMALL: usize = 16 * 1024;

/// The time limit of a request. The compilation of a large component takes seconds.
const DEADLINE: Duration = Duration::from_mins(2);

/// The position of components in a body, as a JSON pointer.
const COMPONENTS: &str = "/modules/*/component";

/// The state of a listener that serves these routes: the app itself, or the socket.
pub trait Managing: State {
    /// Returns the service that the modules belong to.
    fn app(&self) -> &App;

    /// Returns the actor for the audit log.
    fn origin(&self, request: &Request) -> Origin;
}

impl Managing for App {
    fn app(&self) -> &App {
        self
    }

    fn origin(&self, request: &Request) -> Origin {
        request.origin()
    }
}

#[derive(OpenApi)]
#[openapi(
    paths(
        list::list_modules,
        list::show_module,
        log::show_module_log,
        install::install_modules,
        inspect::inspect_modules,
        change::enable_module,
        change::disable_module,
        change::roll_module_back,
        change::remove_module
    ),
    tags((name = "Administration", description = "Changes of modules at run time"))
)]
struct Description;

/// Returns the routes, which count towards the rate-limit bucket `area`.
///
/// # Errors
/// Returns an error if the API description cannot be written.
pub fn part<S: Managing>(area: &str) -> Result<Part<S>, StartError> {
    const ALL: &str = "/api/v1/admin/modules";
    const INSPECT: &str = "/api/v1/admin/modules/inspect";
    const ONE: &str = "/api/v1/admin/modules/{name}";
    const LOG: &str = "/api/v1/admin/modules/{name}/log";
    const ENABLE: &str = "/api/v1/admin/modules/{name}/enable";
    const DISABLE: &str = "/api/v1/admin/modules/{name}/disable";
    const ROLL_BACK: &str = "/api/v1/admin/modules/{name}/rollback";
    let route = |method, path, operation, max_body| route(area, method, path, operation, max_body);
    Part::host(
        vec![
            HostRoute {
                route: route(Method::GET, ALL, "listModules", 0),
                handler: |state, _| Box::pin(ready(list::list_modules(state))),
            },
            HostRoute {
                route: route(Method::GET, ONE, "showModule", 0),
                handler: |state, request| Box::pin(list::show_module(state, request)),
            },
            HostRoute {
                route: route(Method::GET, LOG, "showModuleLog", 0),
                handler: |state, request| Box::pin(ready(log::show_module_log(state, request))),
            },
            HostRoute {
                route: route(Method::POST, ALL, "installModules", LARGEST_BODY),
                handler: |state, request| Box::pin(install::install_modules(state, request)),
            },
            HostRoute {
                route: route(Method::POST, INSPECT, "inspectModules", LARGEST_BODY),
                handler: |state, request| Box::pin(inspect::inspect_modules(state, request)),
            },
            HostRoute {
                route: route(Method::POST, ENABLE, "enableModule", 0),
                handler: |state, request| Box::pin(change::enable_module(state, request)),
            },
            HostRoute {
                route: route(Method::POST, DISABLE, "disableModule", 0),
                handler: |state, request| Box::pin(change::disable_module(state, request)),
            },
            HostRoute {
                route: route(Method::POST, ROLL_BACK, "rollModuleBack", SMALL),
                handler: |state, request| Box::pin(change::roll_module_back(state, request)),
            },
            HostRoute {
                route: route(Method::DELETE, ONE, "removeModule", 0),
                handler: |state, request| Box::pin(change::remove_module(state, request)),
            },
        ],
        &Description::openapi(),
    )
}

fn route(area: &str, method: Method, path: &str, operation: &str, max_body: usize) -> Route {
    let components = max_body == LARGEST_BODY;
    Route {
        method,
        path: path.into(),
        operation: operation.into(),
        access: Access::Admin,
        bucket: area.into(),
        max_body,
        body: BodyForm::Bytes,
        blob_fields: components.then(|| COMPONENTS.into()).into_iter().collect(),
        deadline: DEADLINE,
    }
}

/// A component to install or inspect.
#[derive(Deserialize, ToSchema)]
struct Component {
    /// The component, in standard base64.
    #[schema(
        value_type = String,
        content_encoding = "base64",
        pattern = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
    )]
    component: usize,
}

/// Returns the bytes of the components, in their order.
fn bytes(components: &[Component], request: &Request) -> Result<Vec<Bytes>, Rejection> {
    let bytes = |one: &Component| request.blobs.get(one.component).cloned();
    let bytes: Option<Vec<_>> = components.iter().map(bytes).collect();
    bytes.ok_or_else(|| Rejection::bad_request("component must be in base64"))
}

/// Returns the module name in the path.
fn name(request: &Request) -> &str {
    request.path.first().map_or("", |(_, name)| name)
}

impl From<manager::Error> for Rejection {
    fn from(error: manager::Error) -> Self {
        let status = match &error {
            manager::Error::Invalid(_) => StatusCode::BAD_REQUEST,
            manager::Error::NotFound(_) => StatusCode::NOT_FOUND,
            manager::Error::Conflict(_) | manager::Error::ConsentRequired(_) => {
                StatusCode::CONFLICT
            }
            manager::Error::Directory(_) => return Failure::internal(error).into(),
        };
        Self::new(status, sentence(&error.to_string()))
    }
}

/// Returns a reason with an upper-case first letter.
fn sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
