//! `GET /api/v1/auth/domains`: the domains that accounts are registered on.

use http::{Method, StatusCode};
use latchmail_runtime::modules::{Access, Route};
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::message;
use crate::rejection::Rejection;
use crate::{Request, Response};

/// The registration domains, in the operator's order.
#[derive(Serialize, ToSchema)]
pub struct RegistrationDomains {
    domains: Vec<RegistrationDomain>,
}

/// A registration domain.
#[derive(Serialize, ToSchema)]
pub struct RegistrationDomain {
    /// The domain in lower case.
    domain: String,
}

/// Returns the route.
#[must_use]
pub fn route() -> Route {
    super::route(
        Method::GET,
        "/api/v1/auth/domains",
        "registrationDomains",
        Access::Public,
        "public",
    )
}

/// Lists the domains that accounts are registered on.
///
/// The first domain is used for a user name without a domain.
///
/// # Errors
/// Does not fail in practice, because the list is part of the configuration.
#[utoipa::path(
    get,
    path = "/api/v1/auth/domains",
    operation_id = "registrationDomains",
    tag = "Authentication",
    responses(
        (status = 200, description = "The domains", body = RegistrationDomains),
        (status = 500, description = "`Unable to fetch domains`", body = ref("#/components/schemas/Error")),
    ),
)]
#[expect(clippy::unused_async, reason = "all handlers are called alike")]
pub async fn domains(app: &App, _request: &Request) -> Result<Response, Rejection> {
    let domains = app
        .auth
        .registration_domains()
        .iter()
        .map(|domain| RegistrationDomain {
            domain: domain.clone(),
        })
        .collect();
    message::json(StatusCode::OK, &RegistrationDomains { domains }).map_err(|failure| Rejection {
        text: "Unable to fetch domains".into(),
        ..failure
    })
}
