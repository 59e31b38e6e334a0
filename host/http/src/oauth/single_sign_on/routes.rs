//! The routes of single sign-on. The service has these routes only if users of a domain sign in at
//! an identity provider.

use http::Method;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::Route;
use utoipa::OpenApi;

use super::{logout, token};
use crate::app::App;
use crate::route_group::{HostRoute, RouteGroup, host_route};

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 32 * 1024;

#[derive(OpenApi)]
#[openapi(
    paths(
        token::exchange_code,
        logout::back_channel_logout,
    ),
    tags((name = "Single sign-on", description = "Sign-in at the identity provider of an organization (OpenID Connect)"))
)]
struct Description;

/// Returns the endpoints.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn route_group() -> Result<RouteGroup<App>, StartError> {
    RouteGroup::host(
        vec![
            HostRoute {
                route: Route {
                    bucket: "sign_in".into(),
                    ..with_body(token::PATH, "exchangeSignInCode")
                },
                handler: |app, request| Box::pin(token::exchange_code(app, request)),
            },
            HostRoute {
                route: Route {
                    verifies_body: true,
                    ..with_body(logout::PATH, "backChannelLogout")
                },
                handler: |app, request| Box::pin(logout::back_channel_logout(app, request)),
            },
        ],
        &Description::openapi(),
    )
}

fn with_body(path: &str, operation: &str) -> Route {
    Route {
        max_body: MAX_BODY,
        ..host_route(Method::POST, path, operation)
    }
}
