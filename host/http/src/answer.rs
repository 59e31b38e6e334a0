//! Responses: the format of errors, and the headers of all responses.

use std::any::Any;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use latchmail_core::error::Failure;
use latchmail_runtime::modules::Content;

use super::client::REQUEST_ID;
use super::message::Response;
use super::outgoing::Outgoing;
use crate::rejection::Rejection;

/// Headers that a response has unless a handler of the host sets another value. Modules cannot set them. A response contains data of one user, for programs.
/// If a browser shows a response as a page, the page runs no scripts and cannot access the sign-in pages of the same origin.
const USUAL: [(HeaderName, HeaderValue); 6] = [
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

/// Headers that a handler cannot set: hop-by-hop headers (RFC 9110, section 7.6.1) and headers that the server computes.
const OF_THE_CONNECTION: [HeaderName; 5] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::UPGRADE,
];

/// Converts the result of a handler to a response.
pub(crate) fn response(served: Result<Response, Rejection>) -> http::Response<Outgoing> {
    let Response {
        status,
        mut headers,
        body,
    } = served.unwrap_or_else(|failure| {
        log(&failure);
        failed(failure)
    });
    let body = Outgoing::new(body);
    for name in OF_THE_CONNECTION {
        headers.remove(name);
    }
    if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
        headers.insert(header::CONTENT_LENGTH, body.length().into());
    }
    let mut response = http::Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Adds the headers of all responses.
pub(crate) fn sign(id: &str, headers: &mut HeaderMap) {
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    for (name, value) in USUAL {
        headers.entry(name).or_insert(value);
    }
}

/// Returns `{"error": text}` with the failure's status and headers.
pub(crate) fn failed(failure: Rejection) -> Response {
    let body = serde_json::json!({ "error": failure.text }).to_string();
    let mut headers: HeaderMap = failure.headers.into_iter().collect();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    Response {
        status: failure.status,
        headers,
        body: Content::Bytes(body.into()),
    }
}

/// Returns the 500 error for a handler that panicked.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Rejection {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message");
    Failure::internal(format!("a handler panicked: {message}")).into()
}

/// Returns a method's name for the log. Nonstandard methods are not logged as they are, because a client can choose any text.
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

/// Logs the detail of a failure. This is the only place that does.
pub(crate) fn log(failure: &Rejection) {
    let status = failure.status.as_u16();
    let cause = failure.cause.as_ref().map(tracing::field::display);
    if failure.status.is_server_error() {
        tracing::error!(status, cause, "{}", failure.text);
    } else {
        tracing::debug!(status, cause, "{}", failure.text);
    }
}
