//! `GET /api/openapi.json`: returns the current API description, which includes the loaded modules.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::message::{self, Request, Response};
use crate::state::State;

/// An OpenAPI 3.1 document.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
struct OpenApiDocument {
    /// The version of the OpenAPI specification.
    #[schema(pattern = r"^3\.1\.[0-9]+$")]
    openapi: String,
    /// The title, the version and a description of the API.
    #[schema(value_type = Object)]
    info: Map<String, Value>,
    /// The URL of the service.
    #[schema(value_type = Vec<Object>)]
    servers: Vec<Map<String, Value>>,
    /// The operations of the API, by path and method.
    #[schema(value_type = Object)]
    paths: Map<String, Value>,
    /// Schemas, responses, parameters and security schemes.
    #[schema(value_type = Object)]
    components: Map<String, Value>,
    /// The API token scopes, with a description of each scope.
    #[schema(rename = "x-api-token-scopes")]
    scopes: BTreeMap<String, String>,
}

/// Get the description of this API
///
/// OpenAPI 3.1. `x-required-scope` of an operation names the scope that the operation needs.
/// `x-api-token-scopes` describes all scopes.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    operation_id = "openapi",
    tag = "Service",
    responses((status = 200, description = "The description", body = OpenApiDocument))
)]
pub(super) fn openapi<S: State>(state: &S, _: &Request) -> Response {
    message::serialized_json(StatusCode::OK, state.http().table().description())
}
