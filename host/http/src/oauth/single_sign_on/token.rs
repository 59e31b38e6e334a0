//! `POST /api/v1/auth/oidc/token`: exchanges the code of a sign-in at the identity provider for a
//! web session.

use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::AuthTokens;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/api/v1/auth/oidc/token";

/// The code of a sign-in, and its code verifier.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignInCodeBody {
    /// The code from the redirect. It can be exchanged once, within 60 seconds.
    #[schema(max_length = 100)]
    code: String,
    /// The code verifier. Its SHA-256 hash is the `code_challenge` of the request that started the
    /// sign-in (RFC 7636).
    #[schema(
        min_length = 43,
        max_length = 128,
        pattern = "^[A-Za-z0-9._~-]{43,128}$"
    )]
    code_verifier: String,
}

/// Exchanges a code for the tokens of a web session.
///
/// Starts a web session, as `login` does. A wrong `codeVerifier` uses up the code.
///
/// # Errors
/// Returns 400 if the code or the code verifier is wrong, and 503 if the mail server is not
/// available.
#[utoipa::path(
    post,
    path = "/api/v1/auth/oidc/token",
    operation_id = "exchangeSignInCode",
    tag = "Single sign-on",
    extensions(("x-latchmail" = json!(true))),
    request_body = SignInCodeBody,
    responses(
        (status = 200, description = "The session's tokens", body = AuthTokens),
        (status = 400, description = "The code is invalid, has expired or was already used, or `codeVerifier is wrong`", body = ref("#/components/schemas/Error")),
        (status = 503, description = "The mail server is starting or cannot be reached. The code remains valid", body = ref("#/components/schemas/Error")),
    )
)]
pub(super) async fn exchange_code(app: &App, request: &Request) -> Result<Response, Rejection> {
    let body: SignInCodeBody = request.json()?;
    let signed_in = app
        .oauth
        .exchange_sign_in_code(&body.code, &body.code_verifier, &request.origin())
        .await?;
    message::json(StatusCode::OK, &AuthTokens::new(signed_in, None))
}
