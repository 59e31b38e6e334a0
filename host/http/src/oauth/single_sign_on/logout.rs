//! `POST /auth/oidc/backchannel-logout`: the identity provider ends web sessions of a person
//! (OpenID Connect Back-Channel Logout 1.0).

use http::{HeaderMap, StatusCode};
use latchmail_core::codes;
use latchmail_oauth::error::Refusal;
use latchmail_oauth::parameters::Parameters;
use latchmail_oidc::Error;
use latchmail_runtime::modules::Content;
use utoipa::ToSchema;

use super::super::protocol;
use super::super::provider::{provider, unavailable};
use crate::app::App;
use crate::message::{Request, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/auth/oidc/backchannel-logout";

/// The form with the logout token.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
pub(super) struct LogoutForm {
    /// The logout token.
    logout_token: String,
}

/// End web sessions for the identity provider
///
/// The provider calls this URL when a person signs out there. Ends the web sessions with the `sid`
/// of the logout token, or all web sessions of the person. API tokens, the access of agents and app
/// passwords of mail clients remain. Each logout token is accepted once. Only requests with an
/// invalid token count towards a rate limit.
#[utoipa::path(
    post,
    path = "/auth/oidc/backchannel-logout",
    operation_id = "backChannelLogout",
    tag = "Single sign-on",
    extensions(("x-latchmail" = json!(true))),
    request_body(content = LogoutForm, content_type = "application/x-www-form-urlencoded", description = "The logout token"),
    responses(
        (status = 200, description = "The sessions have ended, or there were none"),
        (status = 400, description = "The logout token is missing, not valid or was used before", body = ref("#/components/schemas/Error")),
        (status = 429, description = "Too many requests with an invalid token", body = ref("#/components/schemas/Error")),
        (status = 503, description = "The keys of the provider cannot be fetched", body = ref("#/components/schemas/Error")),
    )
)]
pub(super) async fn back_channel_logout(
    app: &App,
    request: &Request,
) -> Result<Response, Rejection> {
    let invalid =
        |refusal: Refusal| Rejection::bad_request(codes::INVALID_FIELD, refusal.description);
    let parameters = Parameters::new(protocol::form(request).map_err(invalid)?);
    let token = parameters.needed("logout_token").map_err(invalid)?;
    let logout = match provider(app)?.logout(token).await {
        Ok(logout) => logout,
        Err(Error::Rejected(why)) => {
            tracing::warn!(why, "rejected a logout token");
            return Err(Rejection::bad_request(
                codes::INVALID_LOGOUT_TOKEN,
                format!("Invalid logout token: {why}"),
            ));
        }
        Err(error) => return Err(unavailable(error)),
    };
    let origin = latchmail_core::caller::Origin {
        actor: "service".into(),
        ..request.origin()
    };
    if !app
        .auth
        .single_sign_on
        .sign_out_by_provider(logout, origin)
        .await?
    {
        return Err(Rejection::bad_request(
            codes::INVALID_LOGOUT_TOKEN,
            "The logout token was used before",
        ));
    }
    request.set_verified();
    Ok(Response {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: Content::Bytes(bytes::Bytes::new()),
    })
}
