//! `GET /.well-known/oauth-protected-resource`, and the same with `/mcp` appended (RFC 9728): where the tokens for the agent endpoint are to be had.

use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::error::Failure;
use crate::http::Reply;

pub(super) const PATH: &str = "/.well-known/oauth-protected-resource";
pub(super) const AGENT_PATH: &str = "/.well-known/oauth-protected-resource/mcp";

/// The agent endpoint's metadata.
#[derive(Serialize, ToSchema)]
pub(super) struct ProtectedResource {
    /// The agent endpoint.
    resource: String,
    /// Where its tokens are to be had.
    authorization_servers: [String; 1],
    scopes_supported: Vec<&'static str>,
    bearer_methods_supported: [&'static str; 1],
    /// What the service calls itself.
    resource_name: String,
}

/// Describe the agent endpoint
///
/// RFC 9728: which authorization server lets an agent in.
#[utoipa::path(
    get,
    path = "/.well-known/oauth-protected-resource",
    operation_id = "protectedResource",
    tag = "Authorization",
    responses((status = 200, description = "Its metadata", body = ProtectedResource))
)]
#[expect(clippy::unused_async, reason = "all handlers are called alike")]
pub(super) async fn protected_resource(app: &App) -> Result<Reply, Failure> {
    Reply::json(
        StatusCode::OK,
        &ProtectedResource {
            resource: app.auth.audiences().agent_endpoint(),
            authorization_servers: [app.config.auth_url()],
            scopes_supported: app.oauth.scopes(),
            bearer_methods_supported: ["header"],
            resource_name: app.config.service_name.clone(),
        },
    )
}

/// Describe the agent endpoint at its own path
///
/// The same, where RFC 9728, section 3.1, has it.
#[utoipa::path(
    get,
    path = "/.well-known/oauth-protected-resource/mcp",
    operation_id = "protectedAgentEndpoint",
    tag = "Authorization",
    responses((status = 200, description = "Its metadata", body = ProtectedResource))
)]
pub(super) async fn protected_agent_endpoint(app: &App) -> Result<Reply, Failure> {
    protected_resource(app).await
}
