//! Creates error responses, and sets the headers that all responses have.

use std::any::Any;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use latchmail_core::error::Failure;
use serde::Serialize;

use crate::message::{self, Response};
use crate::rejection::Rejection;
use crate::request_id::REQUEST_ID;
use crate::response_body::ResponseBody;

/// The default headers of responses. A handler of the host can set other values, but a module
/// cannot. The headers forbid caches to store responses, because a response contains data of one
/// user. If a browser shows a response as a page, the headers prevent the page from running scripts
/// and from accessing the sign-in pages.
const DEFAULT_HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'; frame-ancestors 'none'"),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
];

/// The headers that a handler cannot set. These headers are hop-by-hop headers (RFC 9110, section
/// 7.6.1) or are computed by the server.
const SERVER_HEADERS: [HeaderName; 5] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::UPGRADE,
];

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Converts the result of a handler to an HTTP response.
pub(crate) fn from_result(result: Result<Response, Rejection>) -> http::Response<ResponseBody> {
    let Response {
        status,
        mut headers,
        body,
    } = result.unwrap_or_else(|rejection| {
        log(&rejection);
        error_response(rejection)
    });
    let body = ResponseBody::new(body);
    for name in SERVER_HEADERS {
        headers.remove(name);
    }
    if let Some(length) = body.length()
        && status != StatusCode::NO_CONTENT
        && status != StatusCode::NOT_MODIFIED
    {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    if body.length().is_none() {
        // A proxy must pass on each part of a stream at once. Without this header, nginx buffers
        // the response.
        headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    }
    let mut response = http::Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The value of the header that makes browsers use TLS for one year (HSTS, RFC 6797). It does not
/// contain `includeSubDomains`, because subdomains of the service's host may have no TLS.
pub(crate) const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Adds the headers that all responses have: the id of the request, and security headers. `hsts` is
/// the value of `Strict-Transport-Security`.
pub(crate) fn add_common_headers(id: &str, hsts: Option<&HeaderValue>, headers: &mut HeaderMap) {
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    if let Some(hsts) = hsts {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
    for (name, value) in DEFAULT_HEADERS {
        headers.entry(name).or_insert(value);
    }
}

/// The body of an error response.
#[derive(Serialize)]
struct ErrorBody<'r> {
    error: &'r str,
    code: &'r str,
}

/// Returns a response with the body `{"error": text, "code": code}`, and with the status and the
/// headers of the rejection.
fn error_response(rejection: Rejection) -> Response {
    let body = ErrorBody {
        error: &rejection.text,
        code: rejection.code.as_str(),
    };
    // The serialization of two texts does not fail.
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut response = message::serialized_json(rejection.status, body.into());
    response.headers.extend(rejection.headers);
    response
}

/// Returns the 500 error for a handler that panicked.
pub(crate) fn panic_rejection(panic: &(dyn Any + Send)) -> Rejection {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message");
    Failure::internal(format!("a handler panicked: {message}")).into()
}

/// Returns the name of an HTTP method for the log and the metrics. The result for a nonstandard
/// method is `other`, because a client can choose any text as the method.
pub(crate) fn method_name(method: &Method) -> &str {
    match *method {
        Method::GET
        | Method::HEAD
        | Method::POST
        | Method::PUT
        | Method::PATCH
        | Method::DELETE
        | Method::OPTIONS
        | Method::CONNECT
        | Method::TRACE => method.as_str(),
        _ => "other",
    }
}

/// Logs a rejection with its cause. The service calls this function exactly once for every
/// rejection.
pub fn log(rejection: &Rejection) {
    let status = rejection.status.as_u16();
    let cause = rejection.cause.as_ref().map(tracing::field::display);
    if rejection.status.is_server_error() {
        tracing::error!(status, cause, "{}", rejection.text);
    } else {
        tracing::debug!(status, cause, "{}", rejection.text);
    }
}
