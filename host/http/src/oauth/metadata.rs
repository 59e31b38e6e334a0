//! `GET /.well-known/oauth-authorization-server` (RFC 8414): returns the authorization server's
//! endpoints and features.

use http::StatusCode;
use latchmail_oauth::GRANT_TYPES;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::message::{self, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/.well-known/oauth-authorization-server";

/// The path of the authorization endpoint, which is a page.
pub const AUTHORIZATION_PATH: &str = "/login";

/// The client authentication methods of the token endpoint and of the revocation endpoint.
const CLIENT_AUTHENTICATION: [&str; 3] = ["none", "client_secret_post", "client_secret_basic"];

/// The authorization server's metadata.
#[derive(Serialize, ToSchema)]
pub(super) struct AuthorizationServer {
    /// The issuer identifier of the authorization server.
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    registration_endpoint: String,
    device_authorization_endpoint: String,
    /// The endpoint that revokes tokens (RFC 7009).
    #[schema(extensions(("x-latchmail" = json!(true))))]
    revocation_endpoint: String,
    /// The client authentication methods of the revocation endpoint.
    #[schema(extensions(("x-latchmail" = json!(true))))]
    revocation_endpoint_auth_methods_supported: [&'static str; 3],
    scopes_supported: Vec<&'static str>,
    response_types_supported: [&'static str; 1],
    response_modes_supported: [&'static str; 1],
    grant_types_supported: [&'static str; 3],
    token_endpoint_auth_methods_supported: [&'static str; 3],
    code_challenge_methods_supported: [&'static str; 1],
    /// Whether the redirect to the client contains `iss` (RFC 9207).
    authorization_response_iss_parameter_supported: bool,
    /// Whether a client can use the URL of its metadata document as its id.
    client_id_metadata_document_supported: bool,
    /// The resources for which this server issues tokens (RFC 9728, section 4).
    protected_resources: [String; 1],
}

/// Describe the authorization server
///
/// RFC 8414. A grant ends when its owner or its client ends it, when the owner changes the
/// password, or when the operator ends it.
#[utoipa::path(
    get,
    path = "/.well-known/oauth-authorization-server",
    operation_id = "authorizationServer",
    tag = "Authorization",
    responses((status = 200, description = "The metadata of the authorization server", body = AuthorizationServer))
)]
#[expect(clippy::unused_async, reason = "handlers are asynchronous")]
pub(super) async fn authorization_server(app: &App) -> Result<Response, Rejection> {
    let issuer = app.oauth.issuer();
    let url = |path: &str| format!("{issuer}{path}");
    message::json(
        StatusCode::OK,
        &AuthorizationServer {
            issuer: issuer.to_owned(),
            authorization_endpoint: url(AUTHORIZATION_PATH),
            token_endpoint: url(super::token::PATH),
            registration_endpoint: url(super::register::PATH),
            device_authorization_endpoint: url(super::device::PATH),
            revocation_endpoint: url(super::revoke::PATH),
            revocation_endpoint_auth_methods_supported: CLIENT_AUTHENTICATION,
            scopes_supported: app.oauth.scopes(),
            response_types_supported: ["code"],
            response_modes_supported: ["query"],
            grant_types_supported: GRANT_TYPES,
            token_endpoint_auth_methods_supported: CLIENT_AUTHENTICATION,
            code_challenge_methods_supported: ["S256"],
            authorization_response_iss_parameter_supported: true,
            client_id_metadata_document_supported: true,
            protected_resources: [app.auth.oauth_tokens.audiences().agent_endpoint()],
        },
    )
}
