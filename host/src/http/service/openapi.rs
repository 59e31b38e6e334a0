//! `GET /api/openapi.json`: the description of the API as it stands, with whatever modules are loaded.

use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::http::{Reply, Request, State};
use crate::modules::Content;

/// The description of this API.
///
/// OpenAPI 3.1. Each operation names the one scope it needs in `x-required-scope`; `x-api-token-scopes` describes the scopes.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    operation_id = "openapi",
    tag = "Service",
    responses((status = 200, description = "The description", body = serde_json::Value))
)]
pub(super) fn openapi<S: State>(state: &S, _: &Request) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    Reply {
        status: StatusCode::OK,
        headers,
        body: Content::Bytes(state.http().table().description()),
    }
}
