//! `GET /api/v1/admin/modules/{name}/log`: returns recent log entries of a module.

use http::StatusCode;
use latchmail_runtime::module_log::Entry;
use serde::Serialize;
use utoipa::ToSchema;

use super::request::module_name;
use super::state::AdminState;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// Recent log entries of a module.
#[derive(Serialize, ToSchema)]
struct ModuleLog {
    /// The log entries, the oldest first.
    entries: Vec<Entry>,
}

/// Show the log of a module
///
/// Returns recent lines that the module wrote, and the causes of failed calls of the module, for
/// example traps. For each module, the service keeps the last 1,000 entries, with at most 512 KiB
/// of text. A restart of the service deletes the entries.
///
/// # Errors
/// Returns 404 if there is no such module.
#[utoipa::path(
    get,
    path = "/api/v1/admin/modules/{name}/log",
    operation_id = "showModuleLog",
    tag = "Administration",
    params(
        ("name" = String, Path, description = "The module's name"),
        ("request" = Option<String>, Query, description = "Only entries of the request with this id, as in the response's `X-Request-Id`"),
    ),
    responses(
        (status = 200, description = "The entries", body = ModuleLog),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) fn show_module_log<S: AdminState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let entries = state
        .app()
        .module_manager
        .log(module_name(request), request.query("request"))?;
    message::json(StatusCode::OK, &ModuleLog { entries })
}
