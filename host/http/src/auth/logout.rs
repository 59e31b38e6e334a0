//! `POST /api/v1/auth/logout`: ends all web sessions of the account.

use super::refresh_body::{RefreshBody, refresh_token};
use crate::app::App;
use crate::message::{self, Request, Response, Success};
use crate::rejection::Rejection;
use latchmail_core::codes;

/// Signs out on every device.
///
/// Ends all web sessions of the account. API tokens and app passwords of mail clients remain valid.
///
/// # Errors
/// Returns 400 if the refresh token is missing, and 401 if it is invalid or belongs to another
/// account.
#[utoipa::path(
    post,
    path = "/api/v1/auth/logout",
    operation_id = "logout",
    tag = "Authentication",
    request_body = RefreshBody,
    responses(
        (status = 200, description = "Signed out", body = inline(Success)),
        (status = 400, description = "`refreshToken is required`", body = ref("#/components/schemas/Error")),
        (status = 401, description = "No usable session, or `Invalid or expired refresh token`", body = ref("#/components/schemas/Error")),
        (status = 403, description = "The credential is not a web session", body = ref("#/components/schemas/Error")),
    ),
)]
pub async fn logout(app: &App, request: &Request) -> Result<Response, Rejection> {
    let caller = request.caller()?;
    let presented = refresh_token(
        request,
        (codes::REFRESH_TOKEN_REQUIRED, "refreshToken is required"),
    )?;
    app.auth
        .sessions
        .sign_out(&caller.account, &presented, request.origin())
        .await?;
    message::success()
}
