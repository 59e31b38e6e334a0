//! Determines the id of a request, and the trace to which the request belongs.
//!
//! Any client can send the headers `X-Request-Id` and `traceparent`. So the service uses these
//! headers only if the connection comes from a trusted proxy.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName};
use latchmail_core::traces::TraceContext;

/// The header `X-Request-Id`.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Returns the id that a trusted proxy sent, or 22 random characters. The id of a proxy must
/// consist of at most 64 characters of `[A-Za-z0-9._-]`.
pub(crate) fn request_id(trusted: bool, headers: &HeaderMap) -> String {
    headers
        .get(REQUEST_ID)
        .filter(|_| trusted)
        .and_then(|value| value.to_str().ok())
        .filter(|id| {
            (1..=64).contains(&id.len())
                && id
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        })
        .map_or_else(new_id, Into::into)
}

/// Returns the trace context that a trusted proxy sent in the header `traceparent`. Returns `None`
/// if the header is missing or invalid, or if the peer is not trusted.
pub(crate) fn trace_context(trusted: bool, headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let value = values.next().filter(|_| trusted)?;
    if values.next().is_some() {
        return None;
    }
    TraceContext::parse(value.to_str().ok()?)
}

/// Returns 22 random characters that are safe in URLs.
pub(crate) fn new_id() -> String {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // The id is not a secret. So the service processes the request even if the random generator
        // fails.
        return "unnamed".into();
    }
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_trusted_proxy_can_set_the_request_id() {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_static("abc-1.2_3"));
        assert_eq!(request_id(true, &headers), "abc-1.2_3");
        assert_eq!(request_id(false, &headers).len(), 22);
        headers.insert(REQUEST_ID, HeaderValue::from_static("a b"));
        assert_eq!(request_id(true, &headers).len(), 22);
        assert_ne!(new_id(), new_id());
    }

    #[test]
    fn only_a_trusted_proxy_can_set_the_trace() {
        const SENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, HeaderValue::from_static(SENT));
        let received = trace_context(true, &headers).map(|context| context.to_string());
        assert_eq!(received.as_deref(), Some(SENT));
        assert_eq!(trace_context(false, &headers), None);
        headers.append(TRACEPARENT, HeaderValue::from_static(SENT));
        assert_eq!(trace_context(true, &headers), None);
    }
}
