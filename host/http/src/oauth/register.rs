//! `POST /auth/register` (RFC 7591): a client registers itself.

use http::StatusCode;
use latchmail_oauth::clients::Registered;
use latchmail_oauth::error::Refusal;
use utoipa::ToSchema;

use super::protocol;
use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/auth/register";

/// A client's metadata (RFC 7591, section 2). Other members are ignored.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
struct ClientMetadata {
    /// URIs that users can be redirected to. A URI starts with `https://`, with `http://127.0.0.1` or `http://[::1]` and any port, or with the application's
    /// own scheme. All URIs together have at most 4,096 characters. The grant `authorization_code` requires at least one.
    #[schema(max_items = 20)]
    redirect_uris: Option<Vec<String>>,
    /// The name that users see.
    client_name: Option<String>,
    /// The grants that the client uses: `authorization_code`, `refresh_token` and `urn:ietf:params:oauth:grant-type:device_code`. Others are ignored. The
    /// default is the first two.
    grant_types: Option<Vec<String>>,
}

/// Register a client
///
/// RFC 7591. No credential is required. The client gets no secret, and a registration cannot be read, changed or deleted. A registration that is not used for
/// a sign-in is deleted after a day. `http://localhost` is not accepted as a redirect URI: use `http://127.0.0.1` or `http://[::1]`, with any port.
#[utoipa::path(
    post,
    path = "/auth/register",
    operation_id = "registerClient",
    tag = "Authorization",
    request_body = ClientMetadata,
    responses(
        (
            status = 201,
            description = "The registration, with its `client_id`",
            body = Registered,
            links(
                ("showSignIn" = (operation_id = "showSignIn", parameters(("client_id" = "$response.body#/client_id"), ("redirect_uri" = "$response.body#/redirect_uris/0"))))
            )
        ),
        (status = 400, description = "`invalid_redirect_uri` or `invalid_client_metadata`, with `error_description`", body = Refusal),
    )
)]
pub(super) async fn register_client(app: &App, request: &Request) -> Result<Response, Rejection> {
    match app.oauth.register(&request.body, request.client).await {
        Ok(registered) => message::json(StatusCode::CREATED, &registered),
        Err(error) => protocol::error_response(error, false),
    }
}
