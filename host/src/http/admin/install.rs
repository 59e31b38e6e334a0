//! `POST /api/v1/admin/modules`: new modules, and new versions.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Component, Managing, bytes};
use crate::error::Failure;
use crate::http::{Reply, Request};
use crate::life::report::Report;

/// What is to be installed.
#[derive(Deserialize, ToSchema)]
struct Install {
    /// At least one; all of them are installed, or none.
    modules: Vec<Component>,
    /// A yes to whatever a new version may do that the one before could not.
    #[serde(default)]
    accept: bool,
}

/// What was installed.
#[derive(Serialize, ToSchema)]
struct Installed {
    /// In the order given.
    modules: Vec<Report>,
}

/// Installs modules.
///
/// New ones and new versions, all of them or none. Each serves as soon as this is answered; requests under way finish with the version that they began with.
///
/// # Errors
/// 400 for what is no module, 409 for what does not fit or needs consent.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules",
    operation_id = "installModules",
    tag = "Administration",
    request_body = Install,
    responses(
        (
            status = 201,
            description = "They serve",
            body = Installed,
            links(
                ("showModule" = (operation_id = "showModule", parameters(("name" = "$response.body#/modules/0/name")))),
                ("disableModule" = (operation_id = "disableModule", parameters(("name" = "$response.body#/modules/0/name")))),
                ("rollModuleBack" = (operation_id = "rollModuleBack", parameters(("name" = "$response.body#/modules/0/name")))),
                ("removeModule" = (operation_id = "removeModule", parameters(("name" = "$response.body#/modules/0/name"))))
            )
        ),
        (status = 400, description = "One cannot be loaded; the sentence says which, and why", body = ref("#/components/schemas/Error")),
        (status = 409, description = "They do not go together with what there is, the configuration does not allow one, or it needs consent (`accept`): the sentence says for what", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn install_modules<S: Managing>(
    state: &S,
    request: &Request,
) -> Result<Reply, Failure> {
    let install: Install = request.json()?;
    let components = bytes(&install.modules, request)?;
    let (app, origin) = (state.app(), state.origin(request));
    let modules = app
        .life
        .install(app, components, install.accept, &origin)
        .await?;
    Reply::json(StatusCode::CREATED, &Installed { modules })
}
