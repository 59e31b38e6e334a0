//! `/admin/api/v1/openapi.json`: the API description of the routes for operator tokens.

use super::state::OperatorState;
use crate::message::{Response, serialized_json};
use http::StatusCode;

/// Returns the API description of the admin API, and of SCIM if the listener has its routes.
#[utoipa::path(
    get,
    path = "/admin/api/v1/openapi.json",
    operation_id = "describeAdminApi",
    tag = "Description",
    responses((status = 200, description = "The API description (OpenAPI 3.1)", body = Object)),
)]
pub(super) fn show<S: OperatorState>(state: &S) -> Response {
    serialized_json(StatusCode::OK, state.description())
}
