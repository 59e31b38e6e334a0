//! The routes of module administration.

use std::future::ready;
use std::time::Duration;

use http::Method;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::{Access, Route};
use utoipa::OpenApi;

use super::state::AdminState;
use super::{change, compare, handlers, inspect, install, list, log};
use crate::route_group::{HostRoute, RouteGroup, host_route};

/// The maximum size of a request body in bytes. The body contains the components in base64, within
/// JSON.
const MAX_BODY: usize = 128 * 1024 * 1024;

/// The maximum size of the body of a request without components, in bytes.
const MAX_BODY_WITHOUT_COMPONENTS: usize = 16 * 1024;

/// The maximum duration of a request. The compilation of a large component takes several seconds.
const DEADLINE: Duration = Duration::from_mins(2);

/// The place of the components in a request body: a JSON pointer in which `*` is any element.
const COMPONENTS: &str = "/modules/*/component";

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
        change::remove_module,
        handlers::resume_module,
        handlers::preview_module,
        compare::compare_module
    ),
    tags((name = "Administration", description = "Changes of modules at run time"))
)]
struct Description;

/// Returns the routes. Requests count towards the rate limit `bucket`. If `bucket` is an empty
/// string, the routes have no rate limit.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn route_group<S: AdminState>(bucket: &str) -> Result<RouteGroup<S>, StartError> {
    const ALL: &str = "/api/v1/admin/modules";
    const INSPECT: &str = "/api/v1/admin/modules/inspect";
    const ONE: &str = "/api/v1/admin/modules/{name}";
    const LOG: &str = "/api/v1/admin/modules/{name}/log";
    const ENABLE: &str = "/api/v1/admin/modules/{name}/enable";
    const DISABLE: &str = "/api/v1/admin/modules/{name}/disable";
    const RESUME: &str = "/api/v1/admin/modules/{name}/resume";
    const PREVIEW: &str = "/api/v1/admin/modules/{name}/preview";
    const COMPARE: &str = "/api/v1/admin/modules/{name}/compare";
    const ROLL_BACK: &str = "/api/v1/admin/modules/{name}/rollback";
    let route =
        |method, path, operation, max_body| route(bucket, method, path, operation, max_body);
    RouteGroup::host(
        vec![
            HostRoute {
                route: route(Method::GET, ALL, "listModules", 0),
                handler: |state, _| Box::pin(list::list_modules(state)),
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
                route: route(Method::POST, ALL, "installModules", MAX_BODY),
                handler: |state, request| Box::pin(install::install_modules(state, request)),
            },
            HostRoute {
                route: route(Method::POST, INSPECT, "inspectModules", MAX_BODY),
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
                route: route(
                    Method::POST,
                    ROLL_BACK,
                    "rollModuleBack",
                    MAX_BODY_WITHOUT_COMPONENTS,
                ),
                handler: |state, request| Box::pin(change::roll_module_back(state, request)),
            },
            HostRoute {
                route: route(
                    Method::POST,
                    RESUME,
                    "resumeModule",
                    MAX_BODY_WITHOUT_COMPONENTS,
                ),
                handler: |state, request| Box::pin(handlers::resume_module(state, request)),
            },
            HostRoute {
                route: route(
                    Method::POST,
                    PREVIEW,
                    "previewModule",
                    MAX_BODY_WITHOUT_COMPONENTS,
                ),
                handler: |state, request| Box::pin(handlers::preview_module(state, request)),
            },
            HostRoute {
                route: Route {
                    deadline: compare::DEADLINE,
                    ..route(Method::POST, COMPARE, "compareModule", MAX_BODY)
                },
                handler: |state, request| Box::pin(compare::compare_module(state, request)),
            },
            HostRoute {
                route: route(Method::DELETE, ONE, "removeModule", 0),
                handler: |state, request| Box::pin(change::remove_module(state, request)),
            },
        ],
        &Description::openapi(),
    )
}

fn route(bucket: &str, method: Method, path: &str, operation: &str, max_body: usize) -> Route {
    let has_components = max_body == MAX_BODY;
    Route {
        access: Access::Admin,
        bucket: bucket.into(),
        max_body,
        blob_fields: has_components
            .then(|| COMPONENTS.into())
            .into_iter()
            .collect(),
        deadline: DEADLINE,
        ..host_route(method, path, operation)
    }
}
