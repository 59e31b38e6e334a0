//! The common parts of all pages: the head of the HTML document, the headers of the response, and
//! redirects.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use latchmail_core::error::Failure;
use latchmail_http::message::Response;
use latchmail_runtime::modules::Content;
use maud::{DOCTYPE, Markup, html};

/// Renders an HTML document. `style` is the `style` or `link` element of the head.
pub(crate) fn document(title: &str, style: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (title) }
                (style)
            }
            body { (body) }
        }
    }
}

/// Returns the response with a page. `policy` is the page's content security policy.
pub(crate) fn page_response(status: StatusCode, policy: HeaderValue, document: Markup) -> Response {
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        ),
        (header::CONTENT_SECURITY_POLICY, policy),
        // With `no-referrer`, browsers send `Origin: null` with forms, and the check of the origin
        // of forms would fail.
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("same-origin"),
        ),
    ];
    Response {
        status,
        headers: HeaderMap::from_iter(headers),
        body: Content::Bytes(Bytes::from(document.into_string())),
    }
}

/// Returns a response that contains a style sheet or a script.
pub(crate) fn asset(content_type: &'static str, text: &'static str) -> Response {
    let content_type = HeaderValue::from_static(content_type);
    Response {
        status: StatusCode::OK,
        headers: HeaderMap::from_iter([(header::CONTENT_TYPE, content_type)]),
        body: Content::Bytes(Bytes::from_static(text.as_bytes())),
    }
}

/// Redirects the browser to a path. The browser requests this path with `GET`.
pub(crate) fn see_other(path: &'static str) -> Response {
    redirect(HeaderValue::from_static(path))
}

/// Redirects the browser like [`see_other`], to a URL or path that contains data. The data must be
/// percent-encoded.
pub(crate) fn see_other_to(url: &str) -> Result<Response, Failure> {
    let location = HeaderValue::from_str(url).map_err(Failure::internal)?;
    Ok(redirect(location))
}

fn redirect(location: HeaderValue) -> Response {
    Response {
        status: StatusCode::SEE_OTHER,
        headers: HeaderMap::from_iter([(header::LOCATION, location)]),
        body: Content::Bytes(Bytes::new()),
    }
}
