//! Responses of the host's handlers.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use latchmail_core::error::Failure;
pub use latchmail_runtime::modules::{Content, Request, Response};
use serde::Serialize;
use serde_json::json;

use crate::rejection::Rejection;

/// Creates a JSON response.
///
/// # Errors
/// Returns 500 if `value` cannot be serialized, which is a defect of the host.
pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Response, Rejection> {
    let body = serde_json::to_vec(value).map_err(Failure::internal)?;
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    Ok(Response {
        status,
        headers,
        body: Content::Bytes(Bytes::from(body)),
    })
}

/// Creates a response with the status 200 and the body `{"success": true}`.
///
/// # Errors
/// Returns the errors of [`json`], which do not occur in practice.
pub fn success() -> Result<Response, Rejection> {
    json(StatusCode::OK, &json!({ "success": true }))
}
