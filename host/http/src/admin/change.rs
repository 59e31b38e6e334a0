//! Operations on an installed module: enable, disable, roll back and remove.

use http::StatusCode;
use latchmail_core::codes;
use latchmail_runtime::manager::report::Report;
use serde::Deserialize;
use utoipa::ToSchema;

use super::request::module_name;
use super::state::AdminState;
use crate::message::{self, Request, Response, Success};
use crate::rejection::Rejection;

/// The version to activate.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RollBack {
    /// The digest of the version, or at least the first 8 digits of the digest. The default is the
    /// version that was active before the current version.
    digest: Option<String>,
}

/// Enables a module.
///
/// If the module is already enabled, the service loads it again with the current configuration.
///
/// # Errors
/// Returns 404 if there is no such module, and 400 or 409 if the module cannot be loaded.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules/{name}/enable",
    operation_id = "enableModule",
    tag = "Administration",
    params(("name" = String, Path, description = "The module's name")),
    responses(
        (status = 200, description = "The module is enabled", body = Report),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
        (status = 409, description = "The module conflicts with the host or another module", body = ref("#/components/schemas/Error")),
        (status = 413, description = "The request has a body", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn enable_module<S: AdminState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let (app, origin) = (state.app(), state.origin(request));
    let report = app
        .module_manager
        .set_enabled(app, module_name(request), true, &origin)
        .await?;
    message::json(StatusCode::OK, &report)
}

/// Disables a module.
///
/// The routes of the module are not available until the module is enabled again.
///
/// # Errors
/// Returns 404 if there is no such module.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules/{name}/disable",
    operation_id = "disableModule",
    tag = "Administration",
    params(("name" = String, Path, description = "The module's name")),
    responses(
        (status = 200, description = "The module is disabled", body = Report),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
        (status = 413, description = "The request has a body", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn disable_module<S: AdminState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let (app, origin) = (state.app(), state.origin(request));
    let report = app
        .module_manager
        .set_enabled(app, module_name(request), false, &origin)
        .await?;
    message::json(StatusCode::OK, &report)
}

/// Rolls a module back.
///
/// Activates an earlier version of the module, with the current grants and limits of the module.
///
/// # Errors
/// Returns 404 if there is no such module or version, and 409 if there is no earlier version.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules/{name}/rollback",
    operation_id = "rollModuleBack",
    tag = "Administration",
    params(("name" = String, Path, description = "The module's name")),
    request_body(content = Option<RollBack>, description = "Optional"),
    responses(
        (status = 200, description = "The earlier version is active", body = Report),
        (status = 404, description = "There is no such module or version", body = ref("#/components/schemas/Error")),
        (status = 409, description = "There is no earlier version, or it conflicts with the host or another module", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn roll_module_back<S: AdminState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let body = if matches!(request.body.trim_ascii(), b"" | b"null") {
        RollBack::default()
    } else {
        request.json()?
    };
    let (app, origin) = (state.app(), state.origin(request));
    let report = app
        .module_manager
        .roll_back(app, module_name(request), body.digest.as_deref(), &origin)
        .await?;
    message::json(StatusCode::OK, &report)
}

/// Removes a module.
///
/// Removes all versions of the module. The data that the module stored is also deleted if the
/// request contains `purge=true`.
///
/// # Errors
/// Returns 404 if there is no such module, and 409 if the configuration has a `source` for the
/// module.
#[utoipa::path(
    delete,
    path = "/api/v1/admin/modules/{name}",
    operation_id = "removeModule",
    tag = "Administration",
    params(
        ("name" = String, Path, description = "The module's name"),
        ("purge" = Option<bool>, Query, description = "Whether the data that the module stored is deleted too"),
    ),
    responses(
        (status = 200, description = "The module is removed", body = inline(Success)),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
        (status = 409, description = "The module is part of the configuration", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn remove_module<S: AdminState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let (app, origin) = (state.app(), state.origin(request));
    let purge = match request.query("purge") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            return Err(Rejection::bad_request(
                codes::INVALID_FIELD,
                "purge must be true or false",
            ));
        }
    };
    app.module_manager
        .remove(app, module_name(request), purge, &origin)
        .await?;
    message::success()
}
