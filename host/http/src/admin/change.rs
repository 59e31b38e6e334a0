//! Operations on an installed module: enable, disable, roll back and remove.

use http::StatusCode;
use latchmail_runtime::manager::report::Report;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Managing, name};
use crate::message;
use crate::rejection::Rejection;
use crate::{Request, Response};

/// The version to roll back to.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RollBack {
    /// The digest of the version, or at least its first 8 digits. The default is the version before the current one.
    digest: Option<String>,
}

/// A success with no data.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `Response::success` answers")]
struct Success {
    /// Always `true`.
    success: bool,
}

/// Enables a module.
///
/// An enabled module is loaded again, with the current configuration.
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
        (status = 413, description = "It takes no body", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn enable_module<S: Managing>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let (app, origin) = (state.app(), state.origin(request));
    let report = app
        .module_manager
        .enable(app, name(request), &origin)
        .await?;
    message::json(StatusCode::OK, &report)
}

/// Disables a module.
///
/// The module's routes are not available until it is enabled again.
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
        (status = 413, description = "It takes no body", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn disable_module<S: Managing>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let (app, origin) = (state.app(), state.origin(request));
    let report = app
        .module_manager
        .disable(app, name(request), &origin)
        .await?;
    message::json(StatusCode::OK, &report)
}

/// Rolls a module back.
///
/// Activates an earlier version. The version gets the grants that it had then and that the configuration still allows.
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
pub(super) async fn roll_module_back<S: Managing>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let to = if matches!(request.body.trim_ascii(), b"" | b"null") {
        RollBack::default()
    } else {
        request.json()?
    };
    let (app, origin) = (state.app(), state.origin(request));
    let report = app
        .module_manager
        .roll_back(app, name(request), to.digest.as_deref(), &origin)
        .await?;
    message::json(StatusCode::OK, &report)
}

/// Removes a module.
///
/// Removes all versions of the module. The data that the module stored is kept, unless the request contains `purge=true`.
///
/// # Errors
/// Returns 404 if there is no such module, and 409 if the module is part of the configuration.
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
pub(super) async fn remove_module<S: Managing>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let (app, origin) = (state.app(), state.origin(request));
    let purge = match request.query("purge") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Rejection::bad_request("purge must be true or false")),
    };
    app.module_manager
        .remove(app, name(request), purge, &origin)
        .await?;
    message::success()
}
