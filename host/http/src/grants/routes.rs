//! The routes of policies, and their API description.

use http::Method;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::{Access, Route};
use utoipa::OpenApi;

use super::policy;
use crate::app::App;
use crate::route_group::{HostRoute, RouteGroup, host_route};

/// The maximum size of a policy, in bytes.
const MAX_BODY: usize = 256 * 1024;

/// The path of the routes.
const PATH: &str = "/api/v1/profile/grants/{id}/policy";

/// The API description of the routes.
#[derive(Debug, OpenApi)]
#[openapi(paths(policy::get_policy, policy::set_policy))]
struct GrantDescription;

/// Returns the routes and their handlers.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn route_group() -> Result<RouteGroup<App>, StartError> {
    let routes = vec![
        HostRoute {
            route: route(Method::GET, "getGrantPolicy", 0),
            handler: |app, request| Box::pin(policy::get_policy(app, request)),
        },
        HostRoute {
            route: route(Method::PUT, "setGrantPolicy", MAX_BODY),
            handler: |app, request| Box::pin(policy::set_policy(app, request)),
        },
    ];
    RouteGroup::host(routes, &GrantDescription::openapi())
}

fn route(method: Method, operation: &str, max_body: usize) -> Route {
    Route {
        access: Access::Session,
        bucket: "app_passwords".into(),
        max_body,
        ..host_route(method, PATH, operation)
    }
}
