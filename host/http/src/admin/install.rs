//! `POST /api/v1/admin/modules`: installs new modules and new versions.

use http::StatusCode;
use latchmail_runtime::manager::report::Report;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::{Component, new_components};
use super::state::AdminState;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The modules to install.
#[derive(Deserialize, ToSchema)]
struct Install {
    /// The components, at least one. The service installs either all of them or none.
    modules: Vec<Component>,
    /// Whether the caller consents to the replacement of active versions, and to all permissions
    /// that a new version has and the active version does not have.
    #[serde(default)]
    accept: bool,
}

/// The installed modules.
#[derive(Serialize, ToSchema)]
struct Installed {
    /// The modules, in the order of the request.
    modules: Vec<Report>,
}

/// Installs modules.
///
/// Installs new modules and new versions, either all or none. The new versions are active when the
/// service sends the response. Requests in progress finish with the version that was active when
/// they started.
///
/// # Errors
/// Returns 400 if a component is not a module. Returns 409 if a module conflicts with another
/// module or with the configuration, or if consent is missing.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules",
    operation_id = "installModules",
    tag = "Administration",
    request_body = Install,
    responses(
        (
            status = 201,
            description = "The modules are active",
            body = Installed,
            links(
                ("showModule" = (operation_id = "showModule", parameters(("name" = "$response.body#/modules/0/name")))),
                ("disableModule" = (operation_id = "disableModule", parameters(("name" = "$response.body#/modules/0/name")))),
                ("rollModuleBack" = (operation_id = "rollModuleBack", parameters(("name" = "$response.body#/modules/0/name")))),
                ("removeModule" = (operation_id = "removeModule", parameters(("name" = "$response.body#/modules/0/name"))))
            )
        ),
        (status = 400, description = "A module cannot be loaded; the message names the module and the reason", body = ref("#/components/schemas/Error")),
        (status = 409, description = "A module conflicts with the host or another module, is not allowed by the configuration, or needs consent (`accept`); the message names the reason", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn install_modules<S: AdminState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let install: Install = request.json()?;
    let components = new_components(install.modules, request)?;
    let (app, origin) = (state.app(), state.origin(request));
    let modules = app
        .module_manager
        .install(app, &components, install.accept, &origin)
        .await?;
    message::json(StatusCode::CREATED, &Installed { modules })
}
