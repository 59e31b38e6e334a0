//! Responses of the listener that redirects clients to the URL of the service
//! (`http.redirect_listen`).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use latchmail_core::error::Failure;
use latchmail_runtime::modules::Content;
use latchmail_transport::{Body, framing};

use crate::message::Response;
use crate::rejection::Rejection;
use crate::response_body::ResponseBody;
use crate::{request_id, response};

/// Returns the redirect to the same path at `base_url`. The path is the only part of the request
/// that the response contains. If the request has a body, the response contains
/// `Connection: close`, because the body is not read.
pub(crate) fn respond<B: Body>(
    base_url: &str,
    request: Request<B>,
) -> http::Response<ResponseBody> {
    let id = request_id::new_id();
    let (parts, body) = request.into_parts();
    let result = framing::check(&parts)
        .map_err(Rejection::from)
        .and_then(|()| redirect(base_url, &parts.uri));
    let has_body = result.is_err() || !body.is_end_stream();
    let mut response = response::from_result(result);
    tracing::info!(
        %id,
        method = response::method_name(&parts.method),
        status = response.status().as_u16(),
        "redirected a request"
    );
    let headers = response.headers_mut();
    response::add_common_headers(&id, None, headers);
    if has_body {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Returns a permanent redirect that preserves the method (RFC 9110, section 15.4.9).
fn redirect(base_url: &str, uri: &Uri) -> Result<Response, Rejection> {
    // The targets of CONNECT and `OPTIONS *` contain no path, so such a request is redirected to
    // `/`.
    let path = uri
        .path_and_query()
        .map(http::uri::PathAndQuery::as_str)
        .filter(|path| path.starts_with('/'))
        .unwrap_or("/");
    let location = HeaderValue::try_from(format!("{base_url}{path}")).map_err(Failure::internal)?;
    Ok(Response {
        status: StatusCode::PERMANENT_REDIRECT,
        headers: HeaderMap::from_iter([(header::LOCATION, location)]),
        body: Content::Bytes(Bytes::new()),
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::{Empty, Full};

    use super::*;

    #[test]
    fn the_target_is_the_path_at_the_base_url() {
        for (target, expected) in [
            ("/", "https://a.example/"),
            (
                "/api/health?x=1&y=%2F",
                "https://a.example/api/health?x=1&y=%2F",
            ),
            ("//evil.example/x", "https://a.example//evil.example/x"),
            ("/@evil.example", "https://a.example/@evil.example"),
            ("http://evil.example/x?y", "https://a.example/x?y"),
            ("http://evil.example", "https://a.example/"),
            ("evil.example:443", "https://a.example/"),
            ("*", "https://a.example/"),
        ] {
            let request = Request::builder()
                .uri(target)
                .header("Host", "evil.example");
            let request = request.body(Empty::<Bytes>::new()).unwrap();
            let response = respond("https://a.example", request);
            assert_eq!(response.status(), 308);
            assert_eq!(response.headers()["location"], expected, "{target}");
            assert!(!response.headers().contains_key("connection"));
        }
    }

    #[test]
    fn a_request_with_a_body_and_an_invalid_request_end_the_connection() {
        let request = Request::post("/").header("Host", "a");
        let response = respond(
            "https://a",
            request.body(Full::new(Bytes::from("x"))).unwrap(),
        );
        assert_eq!(
            (
                response.status().as_u16(),
                &response.headers()["connection"]
            ),
            (308, &HeaderValue::from_static("close"))
        );
        let response = respond("https://a", Request::new(Empty::<Bytes>::new()));
        assert_eq!(
            (
                response.status().as_u16(),
                &response.headers()["connection"]
            ),
            (400, &HeaderValue::from_static("close"))
        );
    }
}
