//! The routes of single sign-on. The service has these routes only if users of a domain sign in at
//! an identity provider.

use http::Method;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::Route;
use utoipa::OpenApi;

use super::super::state::OAuthState;
use super::{callback, logout, start, token};
use crate::app::App;
use crate::route_group::{HostRoute, RouteGroup, host_route};

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 32 * 1024;

#[derive(OpenApi)]
#[openapi(
    paths(
        start::start_sign_in,
        start::confirm_sign_in,
        token::exchange_code,
        logout::back_channel_logout,
    ),
    tags((name = "Single sign-on", description = "Sign-in at the identity provider of an organization (OpenID Connect)"))
)]
struct Description;

#[derive(OpenApi)]
#[openapi(paths(callback::finish_sign_in), tags((name = "Single sign-on")))]
struct CallbackDescription;

/// Returns the routes below the base URL, without the callback.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn route_group() -> Result<RouteGroup<App>, StartError> {
    RouteGroup::host(
        vec![
            HostRoute {
                route: page(Method::GET, start::PATH, "startSignIn"),
                handler: |app, request| Box::pin(start::start_sign_in(app, request)),
            },
            HostRoute {
                route: Route {
                    max_body: MAX_BODY,
                    ..page(Method::POST, start::PATH, "confirmSignIn")
                },
                handler: |app, request| Box::pin(start::confirm_sign_in(app, request)),
            },
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

/// Returns the callback. The main listener and the listener of the authorization server have this
/// route, because the browser's cookie belongs to one of them.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn callback_route_group<S: OAuthState>() -> Result<RouteGroup<S>, StartError> {
    RouteGroup::host(
        vec![HostRoute {
            route: page(Method::GET, callback::PATH, "finishSignIn"),
            handler: |state, request| Box::pin(callback::finish_sign_in(state.app(), request)),
        }],
        &CallbackDescription::openapi(),
    )
}

fn page(method: Method, path: &str, operation: &str) -> Route {
    Route {
        bucket: "oauth".into(),
        is_page: true,
        ..host_route(method, path, operation)
    }
}

fn with_body(path: &str, operation: &str) -> Route {
    Route {
        max_body: MAX_BODY,
        ..host_route(Method::POST, path, operation)
    }
}
