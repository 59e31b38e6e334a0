//! Operations on a module that acts for mailboxes without a request: resume and preview.

use http::StatusCode;
use latchmail_core::codes;
use latchmail_handlers::{MAX_MESSAGES, Preview};
use serde::Deserialize;
use utoipa::ToSchema;

use super::request::module_name;
use super::state::AdminState;
use crate::message::{self, Request, Response, Success};
use crate::rejection::Rejection;

/// The mailbox for which a module is resumed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ResumeModule {
    /// The address of the account.
    account: String,
    /// Whether the module continues after the event, or after the due time of the timer, that
    /// caused the pause.
    #[serde(default)]
    skip: bool,
}

/// The messages of a preview.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PreviewModule {
    /// The address of the account.
    account: String,
    /// The number of messages.
    #[schema(minimum = 1, maximum = 500)]
    last: u32,
}

/// Resumes a module for a mailbox.
///
/// The service pauses a module for a mailbox if its calls for events or timers fail. A resumed
/// module continues with the event that failed, or after this event.
///
/// # Errors
/// Returns 404 if there is no such account, or if the module is not paused for the mailbox.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules/{name}/resume",
    operation_id = "resumeModule",
    tag = "Administration",
    params(("name" = String, Path, description = "The module's name")),
    request_body = ResumeModule,
    responses(
        (status = 200, description = "The module is resumed", body = inline(Success)),
        (status = 404, description = "There is no such account, or the module is not paused for it", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn resume_module<S: AdminState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let ResumeModule { account, skip } = request.json()?;
    let (app, origin) = (state.app(), state.origin(request));
    app.handlers
        .resume(module_name(request), &account, skip, &origin)
        .await?;
    message::success()
}

/// Previews a module.
///
/// Calls the module for the newest messages of a mailbox whose owner has enabled the module, as if
/// they had just arrived. Changes are recorded and not made. The audit log records the preview.
///
/// # Errors
/// Returns 404 if there is no such account, or if its owner has not enabled the module.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules/{name}/preview",
    operation_id = "previewModule",
    tag = "Administration",
    params(("name" = String, Path, description = "The module's name")),
    request_body = PreviewModule,
    responses(
        (status = 200, description = "The calls with the changes that they would make", body = Preview),
        (status = 404, description = "There is no such account, or its owner has not enabled the module", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn preview_module<S: AdminState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let PreviewModule { account, last } = request.json()?;
    if !(1..=MAX_MESSAGES).contains(&last) {
        let text = format!("last must be 1 to {MAX_MESSAGES}");
        return Err(Rejection::bad_request(codes::INVALID_FIELD, text));
    }
    let (app, origin) = (state.app(), state.origin(request));
    let preview = app
        .handlers
        .preview(module_name(request), &account, last, &origin)
        .await?;
    message::json(StatusCode::OK, &preview)
}
