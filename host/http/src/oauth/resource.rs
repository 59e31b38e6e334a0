//! `GET /.well-known/oauth-protected-resource`, also with `/mcp` appended (RFC 9728): returns the
//! metadata of the agent endpoint. The metadata contains the URL of the authorization server.

use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::message::{self, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/.well-known/oauth-protected-resource";
pub(super) const AGENT_PATH: &str = "/.well-known/oauth-protected-resource/mcp";

/// The agent endpoint's metadata.
#[derive(Serialize, ToSchema)]
pub(super) struct ProtectedResource {
    /// The URL of the agent endpoint.
    resource: String,
    /// The authorization server that issues tokens for the agent endpoint.
    authorization_servers: [String; 1],
    scopes_supported: Vec<&'static str>,
    bearer_methods_supported: [&'static str; 1],
    /// The name of the service.
    resource_name: String,
}

/// Describe the agent endpoint
///
/// RFC 9728. Names the authorization server that issues tokens for the agent endpoint.
#[utoipa::path(
    get,
    path = "/.well-known/oauth-protected-resource",
    operation_id = "protectedResource",
    tag = "Authorization",
    responses((status = 200, description = "The metadata of the agent endpoint", body = ProtectedResource))
)]
#[expect(clippy::unused_async, reason = "handlers are asynchronous")]
pub(super) async fn protected_resource(app: &App) -> Result<Response, Rejection> {
    message::json(
        StatusCode::OK,
        &ProtectedResource {
            resource: app.auth.oauth_tokens.audiences().agent_endpoint(),
            authorization_servers: [app.config.auth_url()],
            scopes_supported: app.oauth.scopes(),
            bearer_methods_supported: ["header"],
            resource_name: app.config.service_name.clone(),
        },
    )
}

/// Describe the agent endpoint at its own path
///
/// Returns the same metadata as the path without `/mcp`. RFC 9728, section 3.1, defines this path
/// for the agent endpoint.
#[utoipa::path(
    get,
    path = "/.well-known/oauth-protected-resource/mcp",
    operation_id = "protectedAgentEndpoint",
    tag = "Authorization",
    responses((status = 200, description = "The metadata of the agent endpoint", body = ProtectedResource))
)]
pub(super) async fn protected_agent_endpoint(app: &App) -> Result<Response, Rejection> {
    protected_resource(app).await
}
