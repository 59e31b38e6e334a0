//! `DELETE /api/v1/profile`: deletes the caller's account after a grace period.

use http::StatusCode;
use latchmail_accounts::auth::account::{Confirmation, Session};
use latchmail_core::caller::Credential;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The confirmation of the deletion.
#[derive(Deserialize, ToSchema)]
struct AccountDeletion {
    /// The account's password. A user who signs in at the identity provider needs none.
    #[schema(format = "password", max_length = 1024)]
    #[serde(default)]
    password: String,
    /// The two-factor code or a recovery code. Required if two-factor sign-in is on.
    #[schema(nullable = false)]
    code: Option<String>,
}

/// The planned deletion.
#[derive(Serialize, ToSchema)]
struct PlannedDeletion {
    /// Always `true`.
    success: bool,
    /// The time at which the account and its mailbox are deleted.
    #[serde(rename = "deletesAt")]
    #[schema(value_type = String, format = DateTime)]
    deletes_at: Timestamp,
}

/// Deletes the account.
///
/// Disables the account at once: all its credentials end, and its addresses receive no mail. The
/// account and its mailbox are deleted after the grace period of the service, or at once without
/// such a period. Until then, the operator can enable the account again. No other account can ever
/// get its addresses.
///
/// # Errors
/// Returns 400 if the password is missing, and 401 if it is wrong or a two-factor code is missing.
/// Returns 403 if the mail server has the user.
#[utoipa::path(
    delete,
    path = "/api/v1/profile",
    operation_id = "deleteAccount",
    tag = "Profile",
    request_body = AccountDeletion,
    responses(
        (status = 200, description = "The account is disabled", body = PlannedDeletion),
        (status = 400, description = "`password is required`", body = ref("#/components/schemas/Error")),
        (status = 401, description = "`Current password is incorrect`, for a wrong `code` too; `Two-factor code required` if two-factor sign-in is on and `code` is missing", body = ref("#/components/schemas/Error")),
        (status = 403, description = "The mail server's administrator manages the account, or a user of the identity provider did not sign in within the last five minutes", body = ref("#/components/schemas/Error")),
    ),
    extensions(("x-latchmail" = json!(true))),
)]
pub(super) async fn delete_account(app: &App, request: &Request) -> Result<Response, Rejection> {
    let caller = request.caller()?;
    let Credential::Session { sid } = &caller.credential else {
        return Err(Failure::internal("a route of sessions has another caller").into());
    };
    let body: AccountDeletion = request.json()?;
    let code = body.code.map(SecretString::from);
    let confirmation = Confirmation {
        session: Session {
            account: &caller.account,
            sid,
        },
        password: SecretString::from(body.password),
        code: code.as_ref(),
    };
    let grace = app.config.accounts.grace;
    let closed = app
        .auth
        .verifier
        .close_account(confirmation, grace, request.origin())
        .await?;
    let Some(deletes_at) = closed else {
        let text = "Current password is incorrect";
        return Err(Failure::unauthorized(codes::WRONG_PASSWORD, text).into());
    };
    app.removals.ensure(&caller.account).await;
    let planned = PlannedDeletion {
        success: true,
        deletes_at,
    };
    message::json(StatusCode::OK, &planned)
}
