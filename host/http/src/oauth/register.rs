//! `POST /auth/register` (RFC 7591): registers a client at the client's own request.

use http::StatusCode;
use latchmail_oauth::clients::Registered;
use latchmail_oauth::error::Refusal;
use utoipa::ToSchema;

use super::protocol;
use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/auth/register";

/// The metadata of a client (RFC 7591, section 2). The server ignores other members.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
struct ClientMetadata {
    /// The URIs to which the server may redirect users. A URI must start with `https://`, with
    /// `http://127.0.0.1` or `http://[::1]` and any port, or with a private-use scheme of the
    /// application (RFC 8252, section 7.1). The total length of all URIs is at most 4,096
    /// characters. The grant `authorization_code` requires at least one URI.
    #[schema(max_items = 20)]
    redirect_uris: Option<Vec<String>>,
    /// The name that users see.
    client_name: Option<String>,
    /// The grants that the client uses: `authorization_code`, `refresh_token` and
    /// `urn:ietf:params:oauth:grant-type:device_code`. The server ignores other grants. The default
    /// is `authorization_code` and `refresh_token`.
    grant_types: Option<Vec<String>>,
}

/// Register a client
///
/// RFC 7591. No credential is required. The client gets no secret. A registration cannot be read,
/// changed or deleted. The server deletes a registration after a day if no user has signed in with
/// it. `http://localhost` is not accepted as a redirect URI. Use `http://127.0.0.1` or
/// `http://[::1]` instead, with any port.
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
