//! The routes of the host under `/api/v1/profile`, and their API description.

use http::Method;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::{Access, Route};
use utoipa::OpenApi;

use super::{delete, events};
use crate::app::App;
use crate::route_group::{HostRoute, RouteGroup, host_route};

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 16 * 1024;

#[derive(OpenApi)]
#[openapi(paths(delete::delete_account, events::list_security_events))]
struct Description;

/// Returns the routes and their handlers.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn route_group() -> Result<RouteGroup<App>, StartError> {
    let route = |method, path, operation, bucket: &str, max_body| Route {
        access: Access::Session,
        bucket: bucket.into(),
        max_body,
        ..host_route(method, path, operation)
    };
    RouteGroup::host(
        vec![
            HostRoute {
                route: route(
                    Method::DELETE,
                    "/api/v1/profile",
                    "deleteAccount",
                    "password_change",
                    MAX_BODY,
                ),
                handler: |app, request| Box::pin(delete::delete_account(app, request)),
            },
            HostRoute {
                route: route(
                    Method::GET,
                    "/api/v1/profile/events",
                    "listSecurityEvents",
                    "profile",
                    0,
                ),
                handler: |app, request| Box::pin(events::list_security_events(app, request)),
            },
        ],
        &Description::openapi(),
    )
}
