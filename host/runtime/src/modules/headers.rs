//! The headers of requests to modules, the allowed headers of responses from modules, and the
//! content types that need the operator's permission.
//!
//! Modules and the sign-in pages have the same origin. A module could attack the sign-in pages with
//! a response header for the whole origin, or with content that a browser runs. The HTTP server
//! adds protective headers to every response.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use latchmail_shape::REQUEST_HEADERS;

/// The maximum number of headers of one response, and the maximum total size of these headers in
/// bytes.
const MAX_HEADERS: usize = 64;
const MAX_SIZE: usize = 16 * 1024;

/// The response headers that a module is allowed to set.
const RESPONSE_HEADERS: [&str; 13] = [
    "accept-ranges",
    "allow",
    "cache-control",
    "content-disposition",
    "content-language",
    "content-range",
    "content-type",
    "etag",
    "idempotent-replayed",
    "last-modified",
    "location",
    "retry-after",
    "www-authenticate",
];

/// The prefix of the headers of the Model Context Protocol. A module is also allowed to set headers
/// with this prefix.
const MCP_PREFIX: &str = "mcp-";

/// Returns the request headers that a module receives.
pub(super) fn request(headers: &HeaderMap) -> Vec<(String, String)> {
    REQUEST_HEADERS
        .into_iter()
        .flat_map(|name| {
            let values = headers.get_all(name).into_iter();
            values.filter_map(move |value| Some((name.to_owned(), value.to_str().ok()?.to_owned())))
        })
        .collect()
}

/// Returns the headers of a request without those that modules do not receive.
pub(super) fn without_unknown(headers: &HeaderMap) -> HeaderMap {
    let mut received = HeaderMap::new();
    for (name, value) in headers {
        if REQUEST_HEADERS.contains(&name.as_str()) {
            received.append(name, value.clone());
        }
    }
    received
}

/// Checks the headers of a module's response, and returns the headers for the client. Drops and
/// logs the headers that a module must not set.
///
/// # Errors
/// Returns a phrase with the name of the header if a header is invalid. If `active_content` is
/// false, a content type that a browser can run is invalid.
pub(super) fn response(
    headers: Vec<(String, String)>,
    active_content: bool,
) -> Result<HeaderMap, String> {
    let size: usize = headers.iter().map(|(n, v)| n.len() + v.len()).sum();
    if headers.len() > MAX_HEADERS || size > MAX_SIZE {
        return Err(format!("{} headers of {size} bytes", headers.len()));
    }
    let mut allowed = HeaderMap::new();
    let mut dropped = Vec::new();
    for (name, value) in headers {
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("header name {name:?}"))?;
        let value =
            HeaderValue::from_str(&value).map_err(|_| format!("value of header {name:?}"))?;
        if name == header::CONTENT_TYPE && allowed.contains_key(&name) {
            return Err("two content types".into());
        }
        if RESPONSE_HEADERS.contains(&name.as_str()) || name.as_str().starts_with(MCP_PREFIX) {
            allowed.append(name, value);
        } else {
            dropped.push(name);
        }
    }
    if !dropped.is_empty() {
        tracing::warn!(target: "module", headers = ?dropped, "dropped response headers that modules may not set");
    }
    // Without a content type, some browsers guess the type.
    let content_type = allowed
        .entry(header::CONTENT_TYPE)
        .or_insert(HeaderValue::from_static("application/octet-stream"));
    if !active_content && is_active(content_type) {
        return Err(format!(
            "content type {content_type:?} needs `active_content = true` in the module's section"
        ));
    }
    Ok(allowed)
}

/// Returns whether a browser can run content of this type. Also returns `true` for a malformed
/// value, because browsers parse malformed values in different ways.
fn is_active(content_type: &HeaderValue) -> bool {
    let Ok(value) = content_type.to_str() else {
        return true;
    };
    let essence = value.split(';').next().unwrap_or_default().trim_end();
    let essence = essence.to_ascii_lowercase();
    let Some((kind, subtype)) = essence.split_once('/') else {
        return true;
    };
    let is_token = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    // Some browsers split the value at commas and use the last type.
    if !is_token(kind) || !is_token(subtype) || value.contains(',') {
        return true;
    }
    kind == "multipart"
        || ["html", "xml", "script", "xsl", "svg"]
            .iter()
            .any(|active| subtype.contains(active))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: &str) -> Result<HeaderMap, String> {
        response(vec![(name.into(), value.into())], false)
    }

    #[test]
    fn headers_for_the_whole_origin_or_the_connection_are_dropped() {
        assert_eq!(one("ETag", "\"1\"").unwrap()["etag"], "\"1\"");
        assert_eq!(one("Mcp-Session-Id", "1").unwrap()["mcp-session-id"], "1");
        for name in [
            "Transfer-Encoding",
            "Content-Length",
            "X-Request-Id",
            "X-RateLimit-Limit",
            "Set-Cookie",
            "Service-Worker-Allowed",
            "Content-Security-Policy",
            "Cross-Origin-Opener-Policy",
            "Access-Control-Allow-Origin",
            "Refresh",
            "Link",
        ] {
            assert!(!one(name, "1").unwrap().contains_key(name), "{name}");
        }
    }

    #[test]
    fn malformed_headers_are_errors() {
        assert!(one("x-a", "b\r\nx-c: d").is_err());
        assert!(one("x a", "b").is_err());
        let twice = vec![("content-type".into(), "text/plain".into()); 2];
        assert!(response(twice, true).is_err());
    }

    #[test]
    fn content_that_a_browser_runs_needs_permission() {
        for passive in [
            "application/json",
            "application/problem+json; charset=utf-8",
            "text/plain ; charset=utf-8",
            "text/event-stream",
            "image/png",
            "application/octet-stream",
        ] {
            assert!(one("content-type", passive).is_ok(), "{passive}");
        }
        for active in [
            "text/html",
            "TEXT/HTML;charset=utf-8",
            "application/xhtml+xml",
            "image/svg+xml",
            "text/xml",
            "application/rss+xml",
            "text/javascript",
            "application/x-ECMAScript",
            "text/jscript",
            "multipart/x-mixed-replace; boundary=b",
            "text/html (comment",
            "text/plain, text/html",
            " text/html",
            "html",
            "",
        ] {
            assert!(one("content-type", active).is_err(), "{active}");
            let headers = vec![("content-type".into(), active.into())];
            assert!(response(headers, true).is_ok(), "{active}");
        }
        assert_eq!(
            response(Vec::new(), false).unwrap()["content-type"],
            "application/octet-stream"
        );
    }
}
