//! `GET /api/health`: reports that the service runs. The route does not check the database or the
//! mail server.

use http::StatusCode;
use latchmail_core::clock::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::message::{self, Request, Response};
use crate::rejection::Rejection;
use crate::state::State;

/// The health of the service.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
    /// The current time, in ISO 8601.
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
}

/// Check whether the service runs
///
/// Does not connect to the database or the mail server.
#[utoipa::path(
    get,
    path = "/api/health",
    operation_id = "health",
    tag = "Service",
    responses((status = 200, description = "The service runs", body = Health))
)]
pub(super) fn health<S: State>(state: &S, _: &Request) -> Result<Response, Rejection> {
    let health = Health {
        status: "ok",
        timestamp: state.http().server.clock.now(),
    };
    message::json(StatusCode::OK, &health)
}
