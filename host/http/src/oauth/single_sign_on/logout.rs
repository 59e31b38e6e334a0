//! `POST /auth/oidc/backchannel-logout`: the identity provider ends web sessions of a person (OpenID Connect Back-Channel Logout 1.0).

use http::{HeaderMap, StatusCode};
use latchmail_core::limits::{Bucket, Key};
use latchmail_oauth::parameters::Parameters;
use latchmail_oidc::Error;
use latchmail_runtime::modules::Content;
use utoipa::ToSchema;

use super::super::protocol;
use super::flow::{provider, unavailable};
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
/// The provider calls this URL when a person signs out there. Ends the web sessions with the `sid` of the logout token, or all web sessions of the person. API
/// tokens, the access of agents and app passwords of mail clients remain. Each logout token is accepted once. Only requests with an invalid token count towards
/// a rate limit.
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
    let form = match protocol::form(request) {
        Ok(form) => form,
        Err(refusal) => return Err(invalid(app, request, refusal.description).await),
    };
    let parameters = Parameters::new(form);
    let token = match parameters.needed("logout_token") {
        Ok(token) => token,
        Err(refusal) => return Err(invalid(app, request, refusal.description).await),
    };
    let logout = match provider(app)?.logout(token).await {
        Ok(logout) => logout,
        Err(Error::Rejected(why)) => {
            tracing::warn!(why, "rejected a logout token");
            return Err(invalid(app, request, format!("Invalid logout token: {why}")).await);
        }
        Err(error) => return Err(unavailable(error)),
    };
    let origin = latchmail_core::caller::Origin {
        actor: "service".into(),
        ..request.origin()
    };
    if !app.auth.sign_out_by_provider(logout, origin).await? {
        return Err(invalid(app, request, "The logout token was used before").await);
    }
    Ok(Response {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: Content::Bytes(bytes::Bytes::new()),
    })
}

/// Counts an invalid request towards the rate limit of the client. Returns 400, or 429 if the limit is exceeded.
async fn invalid(
    app: &App,
    request: &Request,
    text: impl Into<std::borrow::Cow<'static, str>>,
) -> Rejection {
    let key = Key::client(request.client);
    match app.http.limits.check(Bucket::Unproven, &key).await.admit() {
        Ok(_) => Rejection::bad_request(text),
        Err(failure) => failure.into(),
    }
}
