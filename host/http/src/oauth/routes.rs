//! The routes of the authorization server.

use http::Method;
use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::Route;
use utoipa::OpenApi;

use super::state::OAuthState;
use super::{device, metadata, register, resource, revoke, token};
use crate::app::App;
use crate::route_group::{HostRoute, RouteGroup, host_route};

/// The maximum size of a form or a registration, in bytes.
const MAX_BODY: usize = 64 * 1024;

#[derive(OpenApi)]
#[openapi(
    paths(
        metadata::authorization_server,
        register::register_client,
        token::exchange_token,
        device::begin_device,
        revoke::revoke_oauth_token,
    ),
    tags((name = "Authorization", description = "Authorization of agents by the owner of a mailbox (OAuth 2.1)"))
)]
struct Description;

#[derive(OpenApi)]
#[openapi(
    paths(resource::protected_resource, resource::protected_agent_endpoint),
    tags((name = "Authorization"))
)]
struct ResourceDescription;

/// Returns the routes of the agent endpoint's metadata.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn resource_route_group() -> Result<RouteGroup<App>, StartError> {
    RouteGroup::host(
        vec![
            HostRoute {
                route: uncounted(Method::GET, resource::PATH, "protectedResource"),
                handler: |app, _| Box::pin(resource::protected_resource(app)),
            },
            HostRoute {
                route: uncounted(Method::GET, resource::AGENT_PATH, "protectedAgentEndpoint"),
                handler: |app, _| Box::pin(resource::protected_agent_endpoint(app)),
            },
        ],
        &ResourceDescription::openapi(),
    )
}

/// Returns `true` if the main listener has the routes of the authorization server. It has no such
/// routes if the authorization server has a separate listener, or if another service issues the
/// tokens.
#[must_use]
pub fn is_on_main_listener(config: &Config) -> bool {
    config.oauth.listen.is_none() && config.oauth.introspection.is_none()
}

/// Returns the endpoints of the authorization server.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn route_group<S: OAuthState>() -> Result<RouteGroup<S>, StartError> {
    RouteGroup::host(
        vec![
            HostRoute {
                route: uncounted(Method::GET, metadata::PATH, "authorizationServer"),
                handler: |s, _| Box::pin(metadata::authorization_server(s.app())),
            },
            HostRoute {
                route: counted("oauth", Method::POST, register::PATH, "registerClient"),
                handler: |s, r| Box::pin(register::register_client(s.app(), r)),
            },
            HostRoute {
                route: Route {
                    verifies_body: true,
                    ..uncounted(Method::POST, token::PATH, "exchangeToken")
                },
                handler: |s, r| Box::pin(token::exchange_token(s.app(), r)),
            },
            HostRoute {
                route: counted("oauth", Method::POST, device::PATH, "beginDevice"),
                handler: |s, r| Box::pin(device::begin_device(s.app(), r)),
            },
            HostRoute {
                route: Route {
                    verifies_body: true,
                    ..uncounted(Method::POST, revoke::PATH, "revokeOAuthToken")
                },
                handler: |s, r| Box::pin(revoke::revoke_oauth_token(s.app(), r)),
            },
        ],
        &Description::openapi(),
    )
}

/// Creates a route whose requests count towards the rate limit `bucket`.
fn counted(bucket: &str, method: Method, path: &str, operation: &str) -> Route {
    Route {
        bucket: bucket.into(),
        ..uncounted(method, path, operation)
    }
}

/// Creates a route whose requests do not count towards a rate limit of requests.
fn uncounted(method: Method, path: &str, operation: &str) -> Route {
    Route {
        max_body: if method == Method::POST { MAX_BODY } else { 0 },
        ..host_route(method, path, operation)
    }
}
