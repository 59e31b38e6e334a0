//! What is done to a module that there is: enabled, disabled, rolled back, removed.

use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Managing, name};
use crate::error::Failure;
use crate::http::{Reply, Request};
use crate::life::report::Report;

/// Which version is to serve again.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RollBack {
    /// Its digest, or at least the first 8 digits of it. None: the version that served before the one that serves.
    digest: Option<String>,
}

/// A success with no data.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `Reply::success` answers")]
struct Success {
    /// Always `true`.
    success: bool,
}

/// Enables a module.
///
/// One that serves is loaded anew, with the configuration as it is now.
///
/// # Errors
/// 404 where there is no such module; 400 and 409 where it cannot be loaded.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules/{name}/enable",
    operation_id = "enableModule",
    tag = "Administration",
    params(("name" = String, Path, description = "The module's name")),
    responses(
        (status = 200, description = "It serves", body = Report),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
        (status = 409, description = "It does not go together with what there is", body = ref("#/components/schemas/Error")),
        (status = 413, description = "It takes no body", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn enable_module<S: Managing>(
    state: &S,
    request: &Request,
) -> Result<Reply, Failure> {
    let (app, origin) = (state.app(), state.origin(request));
    let report = app.life.enable(app, name(request), &origin).await?;
    Reply::json(StatusCode::OK, &report)
}

/// Disables a module.
///
/// Its routes are gone until it is enabled again.
///
/// # Errors
/// 404 where there is no such module.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules/{name}/disable",
    operation_id = "disableModule",
    tag = "Administration",
    params(("name" = String, Path, description = "The module's name")),
    responses(
        (status = 200, description = "It does not serve", body = Report),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
        (status = 413, description = "It takes no body", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn disable_module<S: Managing>(
    state: &S,
    request: &Request,
) -> Result<Reply, Failure> {
    let (app, origin) = (state.app(), state.origin(request));
    let report = app.life.disable(app, name(request), &origin).await?;
    Reply::json(StatusCode::OK, &report)
}

/// Rolls a module back.
///
/// An earlier version serves again, with what it was allowed then and the configuration still allows.
///
/// # Errors
/// 404 where there is no such module or version; 409 where there is none before.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules/{name}/rollback",
    operation_id = "rollModuleBack",
    tag = "Administration",
    params(("name" = String, Path, description = "The module's name")),
    request_body(content = Option<RollBack>, description = "Optional"),
    responses(
        (status = 200, description = "The earlier version serves", body = Report),
        (status = 404, description = "There is no such module or version", body = ref("#/components/schemas/Error")),
        (status = 409, description = "There is no version before this one, or it does not go together with what there is", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn roll_module_back<S: Managing>(
    state: &S,
    request: &Request,
) -> Result<Reply, Failure> {
    let to = if matches!(request.body.trim_ascii(), b"" | b"null") {
        RollBack::default()
    } else {
        request.json()?
    };
    let (app, origin) = (state.app(), state.origin(request));
    let report = app
        .life
        .roll_back(app, name(request), to.digest.as_deref(), &origin)
        .await?;
    Reply::json(StatusCode::OK, &report)
}

/// Removes a module.
///
/// And every version of it. What it stored stays, unless `purge=true` is asked for.
///
/// # Errors
/// 404 where there is no such module; 409 for one that the configuration brings.
#[utoipa::path(
    delete,
    path = "/api/v1/admin/modules/{name}",
    operation_id = "removeModule",
    tag = "Administration",
    params(
        ("name" = String, Path, description = "The module's name"),
        ("purge" = Option<bool>, Query, description = "Whether what it stored goes, too"),
    ),
    responses(
        (status = 200, description = "It is gone", body = inline(Success)),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
        (status = 409, description = "The configuration brings it", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn remove_module<S: Managing>(
    state: &S,
    request: &Request,
) -> Result<Reply, Failure> {
    let (app, origin) = (state.app(), state.origin(request));
    let purge = match request.query("purge") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Failure::bad_request("purge must be true or false")),
    };
    app.life.remove(app, name(request), purge, &origin).await?;
    Reply::success()
}
