//! The requests and responses of handlers.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use latchmail_core::error::Failure;
pub use latchmail_runtime::modules::{Content, Request, Response};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::rejection::Rejection;

/// The body of a successful response without data.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) struct Success {
    /// Always `true`.
    success: bool,
}

/// Creates a JSON response.
///
/// # Errors
/// Returns 500 if `value` cannot be serialized, which is a bug of the host.
pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Response, Rejection> {
    let body = serde_json::to_vec(value).map_err(Failure::internal)?;
    Ok(serialized_json(status, body.into()))
}

/// Creates a response from text that is already JSON.
#[must_use]
pub fn serialized_json(status: StatusCode, body: Bytes) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    Response {
        status,
        headers,
        body: Content::Bytes(body),
    }
}

/// Creates a response with the status 200 and the body `{"success": true}`.
///
/// # Errors
/// Returns 500 if the body cannot be serialized.
pub fn success() -> Result<Response, Rejection> {
    json(StatusCode::OK, &json!({ "success": true }))
}
