//! `GET /api/v1/auth/username-available`: reports whether a user name can be registered.

use http::StatusCode;
use latchmail_accounts::auth::Availability;
use latchmail_core::codes;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The availability of a user name.
#[derive(Serialize, ToSchema)]
pub struct UsernameAvailability {
    available: bool,
    /// The address that the account would have. Present if the user name is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = "email")]
    address: Option<String>,
    /// The error text that a registration would return. Present if the user name is not available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<&'static str>,
}

impl From<Availability> for UsernameAvailability {
    fn from(availability: Availability) -> Self {
        let (address, reason) = match availability {
            Availability::Available { address } => (Some(address), None),
            Availability::Unavailable { reason } => (None, Some(reason)),
        };
        Self {
            available: reason.is_none(),
            address,
            reason,
        }
    }
}

/// Checks whether a user name can be registered.
///
/// The check compares the user name with accounts only. If the address is an alias of another
/// account, the name is reported as available, although a registration returns 409. For a name that
/// violates a rule, the response is 200 with the reason.
///
/// # Errors
/// Returns 400 if the parameter is missing.
#[utoipa::path(
    get,
    path = "/api/v1/auth/username-available",
    operation_id = "usernameAvailable",
    tag = "Authentication",
    params(("username" = String, Query, description = "The requested user name, which is converted to lower case. A name that violates a rule is not available")),
    responses(
        (status = 200, description = "The availability of the user name", body = UsernameAvailability),
        (status = 400, description = "`username` is missing", body = ref("#/components/schemas/Error")),
    ),
)]
pub async fn username_available(app: &App, request: &Request) -> Result<Response, Rejection> {
    let username = request.query("username").ok_or_else(|| {
        Rejection::bad_request(codes::USERNAME_REQUIRED, "username query param is required")
    })?;
    let availability = app.auth.registration.availability(username).await?;
    message::json(StatusCode::OK, &UsernameAvailability::from(availability))
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn a_response_has_either_an_address_or_a_reason() {
        let response = |availability| to_value(UsernameAvailability::from(availability)).unwrap();
        assert_eq!(
            response(Availability::Available {
                address: "ada@a.example".into()
            }),
            json!({"available": true, "address": "ada@a.example"})
        );
        assert_eq!(
            response(Availability::Unavailable { reason: "no" }),
            json!({"available": false, "reason": "no"})
        );
    }
}
