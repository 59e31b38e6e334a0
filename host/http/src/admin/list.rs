//! `GET /api/v1/admin/modules` and `GET /api/v1/admin/modules/{name}`: list and show modules.

use http::StatusCode;
use latchmail_runtime::manager::report::{Report, Summary};
use serde::Serialize;
use utoipa::ToSchema;

use super::request::module_name;
use super::state::AdminState;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// A list of modules.
#[derive(Serialize, ToSchema)]
struct Modules {
    /// The modules, sorted by name.
    modules: Vec<Summary>,
}

/// Lists the modules.
///
/// Returns for each module its active version and statistics of its requests. If no version is
/// active, returns the reason instead of the version.
///
/// # Errors
/// Returns 500 if the response cannot be serialized.
#[utoipa::path(
    get,
    path = "/api/v1/admin/modules",
    operation_id = "listModules",
    tag = "Administration",
    responses((
        status = 200,
        description = "The modules",
        body = Modules,
        links(
            ("showModule" = (operation_id = "showModule", parameters(("name" = "$response.body#/modules/0/name"))))
        )
    )),
)]
pub(super) fn list_modules<S: AdminState>(state: &S) -> Result<Response, Rejection> {
    let modules = state.app().module_manager.list();
    message::json(StatusCode::OK, &Modules { modules })
}

/// Shows a module.
///
/// Returns the module's imports and whether each import is granted, its routes, and its stored
/// versions.
///
/// # Errors
/// Returns 404 if there is no such module.
#[utoipa::path(
    get,
    path = "/api/v1/admin/modules/{name}",
    operation_id = "showModule",
    tag = "Administration",
    params(("name" = String, Path, description = "The module's name")),
    responses(
        (
            status = 200,
            description = "The module",
            body = Report,
            links(
                ("enableModule" = (operation_id = "enableModule", parameters(("name" = "$request.path.name")))),
                ("disableModule" = (operation_id = "disableModule", parameters(("name" = "$request.path.name")))),
                ("rollModuleBack" = (operation_id = "rollModuleBack", parameters(("name" = "$request.path.name")))),
                ("removeModule" = (operation_id = "removeModule", parameters(("name" = "$request.path.name"))))
            )
        ),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn show_module<S: AdminState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let report = state
        .app()
        .module_manager
        .show(module_name(request))
        .await?;
    message::json(StatusCode::OK, &report)
}
