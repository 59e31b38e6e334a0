//! `/api/v1/profile/export`: the archive with all data of the caller's account. The archives are
//! written by jobs ([`latchmail_export`]).

mod archive;
mod range;
mod routes;

use http::StatusCode;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_export::{Export, Started};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

pub use routes::route_group;

/// An export of an account.
#[derive(Serialize, ToSchema)]
#[schema(as = AccountExport)]
#[serde(rename_all = "camelCase")]
struct ExportBody {
    /// The opaque id of the export.
    id: String,
    /// The state of the export.
    #[schema(value_type = ExportStatus)]
    status: &'static str,
    /// The time at which the export was requested.
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    /// The time at which the export and its archive are deleted.
    #[schema(value_type = String, format = "date-time")]
    expires_at: Timestamp,
    /// The number of messages in the archive so far.
    messages: u64,
    /// The size of the archive in bytes. `null` if the archive is not ready.
    size: Option<u64>,
    /// The reason of a failure, or `null`.
    error: Option<String>,
}

/// The state of an export.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
enum ExportStatus {
    Pending,
    Running,
    Ready,
    Failed,
}

impl From<Export> for ExportBody {
    fn from(export: Export) -> Self {
        Self {
            id: export.id,
            status: export.status.name(),
            created_at: export.created_at,
            expires_at: export.expires_at,
            messages: export.messages,
            size: export.size,
            error: export.error,
        }
    }
}

/// Request an export
///
/// Starts to write an archive with all data of the account: the messages, and the account, its
/// aliases and its rules. The archive replaces an earlier one, and is deleted after a week. An
/// account has one export at a time.
#[utoipa::path(
    post,
    path = "/api/v1/profile/export",
    operation_id = "startExport",
    tag = "Profile",
    extensions(("x-latchmail" = json!(true))),
    responses(
        (
            status = 202,
            description = "The export was requested",
            body = ExportBody,
            links(
                ("getExport" = (operation_id = "getExport", parameters(("id" = "$response.body#/id"))))
            )
        ),
        (status = 409, description = "`An export is already in progress`", body = ref("#/components/schemas/Error")),
    )
)]
async fn start_export(app: &App, request: &Request) -> Result<Response, Rejection> {
    let caller = request.caller()?;
    match app
        .exports
        .start(&caller.account, &request.origin())
        .await?
    {
        Started::Begun(export) => message::json(StatusCode::ACCEPTED, &ExportBody::from(export)),
        Started::InProgress(_) => Err(Failure::conflict(
            codes::EXPORT_IN_PROGRESS,
            "An export is already in progress",
        )
        .into()),
    }
}

/// Get an export
#[utoipa::path(
    get,
    path = "/api/v1/profile/export/{id}",
    operation_id = "getExport",
    tag = "Profile",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The id of the export")),
    responses(
        (status = 200, description = "The export", body = ExportBody),
        (status = 404, description = "`Export not found`", body = ref("#/components/schemas/Error")),
    )
)]
async fn get_export(app: &App, request: &Request) -> Result<Response, Rejection> {
    let export = find(app, request).await?;
    message::json(StatusCode::OK, &ExportBody::from(export))
}

/// Returns the export of the request's path.
async fn find(app: &App, request: &Request) -> Result<Export, Rejection> {
    let caller = request.caller()?;
    let id = request.path.first().map_or("", |(_, id)| id.as_str());
    let export = app.exports.find(&caller.account, id).await?;
    export.ok_or_else(|| not_found().into())
}

fn not_found() -> Failure {
    Failure::not_found(codes::EXPORT_NOT_FOUND, "Export not found")
}
