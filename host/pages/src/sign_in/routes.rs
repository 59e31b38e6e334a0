//! The routes of the sign-in pages.

use http::Method;
use latchmail_core::error::StartError;
use latchmail_http::App;
use latchmail_http::oauth::OAuthState;
use latchmail_http::route_group::{HostRoute, RouteGroup, host_route};
use latchmail_runtime::modules::Route;
use utoipa::OpenApi;

use super::provider::CALLBACK_PATH;
use super::{authorize, device, provider_callback, provider_start};

/// The maximum size of a form, in bytes.
const MAX_FORM: usize = 64 * 1024;

/// The maximum size of the form that continues a sign-in at the identity provider, in bytes.
const MAX_CONFIRMATION: usize = 32 * 1024;

#[derive(OpenApi)]
#[openapi(paths(
    device::show_device,
    device::submit_device,
    authorize::show_sign_in,
    authorize::submit_sign_in,
))]
struct Description;

#[derive(OpenApi)]
#[openapi(paths(provider_start::start_sign_in, provider_start::confirm_sign_in))]
struct ProviderDescription;

#[derive(OpenApi)]
#[openapi(paths(provider_callback::finish_sign_in))]
struct CallbackDescription;

/// Returns the pages of the authorization server.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub(crate) fn route_group<S: OAuthState>() -> Result<RouteGroup<S>, StartError> {
    RouteGroup::host(
        vec![
            HostRoute {
                route: page("oauth", Method::GET, device::PAGE, "showDevice"),
                handler: |s, r| Box::pin(device::show_device(s.app(), r)),
            },
            HostRoute {
                // Attempts to guess a device code count towards the same rate limit as attempts to
                // guess a password.
                route: form("sign_in", device::PAGE, "submitDevice", MAX_FORM),
                handler: |s, r| Box::pin(device::submit_device(s.app(), r)),
            },
            HostRoute {
                route: page("oauth", Method::GET, authorize::PATH, "showSignIn"),
                handler: |s, r| Box::pin(authorize::show_sign_in(s.app(), r)),
            },
            HostRoute {
                route: form("sign_in", authorize::PATH, "submitSignIn", MAX_FORM),
                handler: |s, r| Box::pin(authorize::submit_sign_in(s.app(), r)),
            },
        ],
        &Description::openapi(),
    )
}

/// Returns the pages with which a client starts a sign-in at the identity provider.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub(crate) fn provider_route_group() -> Result<RouteGroup<App>, StartError> {
    const PATH: &str = provider_start::PATH;
    RouteGroup::host(
        vec![
            HostRoute {
                route: page("oauth", Method::GET, PATH, "startSignIn"),
                handler: |app, r| Box::pin(provider_start::start_sign_in(app, r)),
            },
            HostRoute {
                route: form("oauth", PATH, "confirmSignIn", MAX_CONFIRMATION),
                handler: |app, r| Box::pin(provider_start::confirm_sign_in(app, r)),
            },
        ],
        &ProviderDescription::openapi(),
    )
}

/// Returns the route to which the identity provider redirects the browser. The main listener and
/// the listener of the authorization server have this route. The browser returns to the listener at
/// which the sign-in began, because the browser sends its cookie only there.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub(crate) fn callback_route_group<S: OAuthState>() -> Result<RouteGroup<S>, StartError> {
    RouteGroup::host(
        vec![HostRoute {
            route: page("oauth", Method::GET, CALLBACK_PATH, "finishSignIn"),
            handler: |s, r| Box::pin(provider_callback::finish_sign_in(s.app(), r)),
        }],
        &CallbackDescription::openapi(),
    )
}

/// Creates a page that receives a form of at most `max_body` bytes.
fn form(bucket: &str, path: &str, operation: &str, max_body: usize) -> Route {
    Route {
        max_body,
        ..page(bucket, Method::POST, path, operation)
    }
}

/// Creates a page whose requests count towards the rate limit `bucket`.
fn page(bucket: &str, method: Method, path: &str, operation: &str) -> Route {
    Route {
        bucket: bucket.into(),
        is_page: true,
        ..host_route(method, path, operation)
    }
}
