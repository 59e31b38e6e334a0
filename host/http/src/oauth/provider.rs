//! Access to the identity provider.

use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_oidc::{Error, Provider};

use crate::app::App;
use crate::rejection::Rejection;

/// Returns the identity provider. Only the routes of single sign-on call this function, and the
/// service has these routes only with a provider.
///
/// # Errors
/// Returns 500 if no provider is configured.
pub fn provider(app: &App) -> Result<&Provider, Rejection> {
    let missing = || Failure::internal("no identity provider is configured");
    Ok(app.auth.single_sign_on.provider().ok_or_else(missing)?)
}

/// Returns the 503 error for a request that needs an unreachable identity provider.
#[must_use]
pub fn unavailable(error: Error) -> Rejection {
    Rejection::unavailable(
        codes::IDENTITY_PROVIDER_UNAVAILABLE,
        "The identity provider cannot be reached, please try again in a moment",
    )
    .because(error)
}
