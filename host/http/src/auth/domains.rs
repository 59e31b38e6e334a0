//! `GET /api/v1/auth/domains`: lists the domains on which users can register accounts.

use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The registration domains, in the order of the configuration.
#[derive(Serialize, ToSchema)]
pub struct RegistrationDomains {
    domains: Vec<RegistrationDomain>,
}

/// A registration domain.
#[derive(Serialize, ToSchema)]
pub struct RegistrationDomain {
    /// The name of the domain, in lower case.
    domain: String,
}

/// Lists the domains on which users can register accounts.
///
/// If a user enters a user name without a domain, the service uses the first domain.
///
/// # Errors
/// Returns 500 if the response cannot be serialized.
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
#[expect(clippy::unused_async, reason = "handlers are asynchronous")]
pub async fn domains(app: &App, _request: &Request) -> Result<Response, Rejection> {
    let domains = app
        .auth
        .registration
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
