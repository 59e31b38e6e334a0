//! The routes of exports.

use http::Method;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::{Access, Route};
use utoipa::OpenApi;

use super::archive;
use crate::app::App;
use crate::route_group::{HostRoute, RouteGroup, host_route};

#[derive(OpenApi)]
#[openapi(paths(super::start_export, super::get_export, archive::get_export_archive))]
struct Description;

/// Returns the routes and their handlers.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn route_group() -> Result<RouteGroup<App>, StartError> {
    RouteGroup::host(
        vec![
            HostRoute {
                route: route(Method::POST, "/api/v1/profile/export", "startExport"),
                handler: |app, request| Box::pin(super::start_export(app, request)),
            },
            HostRoute {
                route: route(Method::GET, "/api/v1/profile/export/{id}", "getExport"),
                handler: |app, request| Box::pin(super::get_export(app, request)),
            },
            HostRoute {
                route: route(
                    Method::GET,
                    "/api/v1/profile/export/{id}/archive",
                    "getExportArchive",
                ),
                handler: |app, request| Box::pin(archive::get_export_archive(app, request)),
            },
        ],
        &Description::openapi(),
    )
}

fn route(method: Method, path: &str, operation: &str) -> Route {
    Route {
        access: Access::Session,
        bucket: "profile".into(),
        ..host_route(method, path, operation)
    }
}
