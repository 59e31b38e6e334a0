//! The routes of the authorization server.

use http::Method;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::Route;
use utoipa::OpenApi;

use super::state::OAuthState;
use super::{device, metadata, register, resource, sign_in, token};
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
        device::show_device,
        device::submit_device,
        sign_in::show_sign_in,
        sign_in::submit_sign_in,
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

/// Returns the routes of the authorization server.
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
                route: page("oauth", Method::GET, device::PAGE, "showDevice"),
                handler: |s, r| Box::pin(device::show_device(s.app(), r)),
            },
            HostRoute {
                // Attempts to guess a device code count towards the same rate limit as attempts to
                // guess a password.
                route: page("sign_in", Method::POST, device::PAGE, "submitDevice"),
                handler: |s, r| Box::pin(device::submit_device(s.app(), r)),
            },
            HostRoute {
                route: page("oauth", Method::GET, sign_in::PATH, "showSignIn"),
                handler: |s, r| Box::pin(sign_in::show_sign_in(s.app(), r)),
            },
            HostRoute {
                route: page("sign_in", Method::POST, sign_in::PATH, "submitSignIn"),
                handler: |s, r| Box::pin(sign_in::submit_sign_in(s.app(), r)),
            },
        ],
        &Description::openapi(),
    )
}

/// Creates a page whose requests count towards the rate limit `bucket`.
fn page(bucket: &str, method: Method, path: &str, operation: &str) -> Route {
    Route {
        is_page: true,
        ..counted(bucket, method, path, operation)
    }
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
