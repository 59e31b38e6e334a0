//! `GET /api/v1/admin/modules` and `GET /api/v1/admin/modules/{name}`: list and show modules.

use http::StatusCode;
use latchmail_handlers::{MailboxCounts, ModuleMailboxes};
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
    modules: Vec<ModuleEntry>,
}

/// A module of the list.
#[derive(Serialize, ToSchema)]
struct ModuleEntry {
    #[serde(flatten)]
    summary: Summary,
    /// The mailboxes for which the module acts without a request. Absent if no owner has enabled
    /// the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    mailboxes: Option<MailboxCounts>,
}

/// The details of a module.
#[derive(Serialize, ToSchema)]
struct ModuleDetails {
    #[serde(flatten)]
    report: Report,
    /// The mailboxes for which the module acts without a request. Absent if no owner has enabled
    /// the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    mailboxes: Option<ModuleMailboxes>,
}

/// Lists the modules.
///
/// Returns for each module its active version and statistics of its requests. If no version is
/// active, returns the reason instead of the version.
///
/// # Errors
/// Returns 500 if the database fails.
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
pub(super) async fn list_modules<S: AdminState>(state: &S) -> Result<Response, Rejection> {
    let app = state.app();
    let mut mailboxes = app.handlers.mailbox_counts().await?;
    let modules = app.module_manager.list().into_iter();
    let modules = modules.map(|summary| ModuleEntry {
        mailboxes: mailboxes.remove(&summary.name),
        summary,
    });
    let modules = modules.collect();
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
            body = ModuleDetails,
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
    let (app, name) = (state.app(), module_name(request));
    let details = ModuleDetails {
        report: app.module_manager.show(name).await?,
        mailboxes: app.handlers.mailboxes(name).await?,
    };
    message::json(StatusCode::OK, &details)
}
