//! Checks the head of a request. RFC 9112 (HTTP/1) and RFC 9113 (HTTP/2) require these checks, but
//! hyper does not perform the checks.
//!
//! A proxy and the service can interpret an ambiguous head differently (request smuggling). This
//! module rejects a head in the following cases. hyper 1.12.0 (`proto/h1/role.rs`) with httparse
//! 1.10.1 accepts the head in these cases:
//!
//! - A line ends with a bare LF.
//! - The head has both `Content-Length` and `Transfer-Encoding`. hyper removes `Content-Length`,
//!   and closes the connection after the response.
//! - The head has the same `Content-Length` twice. hyper removes one of the two headers.
//! - `Transfer-Encoding` contains another coding before `chunked`. hyper does not decode the other
//!   coding.
//! - The head does not have exactly one Host header.
//!
//! The parsed request does not contain the information for the first three cases, so this module
//! examines the bytes of the head. hyper itself rejects other invalid heads with 400. Examples are
//! several `Content-Length` headers with different values, a last coding other than `chunked`, a CR
//! without LF, a folded line, a space before a colon, and an invalid name or value of a header.

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Version, header};
use latchmail_core::codes;

use crate::error::RequestError;

/// The maximum number of headers of a request.
pub(crate) const MAX_HEADERS: usize = 100;

/// The reason why a head is ambiguous, as an error text. The connection attaches this value to the
/// request as an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ambiguity(&'static str);

const LINE_ENDS: Ambiguity = Ambiguity("The lines of a request's head must end in CR LF");

/// Returns the ambiguity of a head, or `None` if the head is not ambiguous. `head` contains the
/// bytes of the head.
pub(crate) fn ambiguity(head: &[u8]) -> Option<Ambiguity> {
    let (mut lengths, mut codings, mut ended) = (0, 0, false);
    let lines = head.split_inclusive(|byte| *byte == b'\n');
    // Empty lines before a request are ignored (RFC 9112, section 2.2).
    for line in lines.skip_while(|line| *line == b"\r\n") {
        // RFC 9112, section 2.2, permits recipients to accept a bare LF as the end of a line, but
        // some recipients do not accept a bare LF.
        if ended || !line.ends_with(b"\r\n") {
            return Some(LINE_ENDS);
        }
        ended = line == b"\r\n";
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let is = |header: header::HeaderName| {
            usize::from(name.eq_ignore_ascii_case(header.as_str().as_bytes()))
        };
        lengths += is(header::CONTENT_LENGTH);
        codings += is(header::TRANSFER_ENCODING);
    }
    match (ended, lengths, codings) {
        (false, _, _) => Some(LINE_ENDS),
        (true, 0 | 1, 0) | (true, 0, _) => None,
        (true, _, 0) => Some(Ambiguity("A request must have at most one Content-Length")),
        (true, _, _) => Some(Ambiguity(
            "A request must not have both Content-Length and Transfer-Encoding",
        )),
    }
}

/// Checks that the head of a request is unambiguous.
///
/// # Errors
/// Returns 400 if the head is ambiguous ([`ambiguity`]), or if the head does not contain exactly
/// one host (RFC 9112, section 3.2). Returns 501 for a transfer coding other than `chunked` (RFC
/// 9112, section 6.1).
pub fn check(parts: &Parts) -> Result<(), RequestError> {
    if parts.version == Version::HTTP_2 {
        return check_http2(parts);
    }
    if let Some(Ambiguity(text)) = parts.extensions.get() {
        return Err(RequestError::bad_request(codes::MALFORMED_REQUEST, *text));
    }
    if !is_transfer_encoding_supported(&parts.headers) {
        return Err(RequestError::new(
            StatusCode::NOT_IMPLEMENTED,
            codes::UNSUPPORTED_TRANSFER_ENCODING,
            "The only supported Transfer-Encoding is chunked",
        ));
    }
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let is_valid = match (hosts.next(), hosts.next()) {
        (None, _) => parts.version < Version::HTTP_11,
        (Some(host), None) => is_host(host.as_bytes()),
        (Some(_), Some(_)) => false,
    };
    if !is_valid {
        return Err(RequestError::bad_request(
            codes::MALFORMED_REQUEST,
            "A request must have exactly one Host header that names a host",
        ));
    }
    Ok(())
}

/// Checks the head of an HTTP/2 request. h2 rejects connection-specific headers, invalid
/// pseudo-headers, and `Content-Length` headers with different values.
fn check_http2(parts: &Parts) -> Result<(), RequestError> {
    let headers = &parts.headers;
    if headers.len() > MAX_HEADERS {
        return Err(RequestError::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            codes::HEADERS_TOO_LARGE,
            "The request's headers are too large",
        ));
    }
    if headers.get_all(header::CONTENT_LENGTH).iter().count() > 1 {
        return Err(RequestError::bad_request(
            codes::MALFORMED_REQUEST,
            "A request must have at most one Content-Length",
        ));
    }
    // The host is in `:authority`, in the Host header, or in both with the same value (RFC 9113,
    // section 8.3.1).
    let authority = parts.uri.authority().map(|one| one.as_str().as_bytes());
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().map(http::HeaderValue::as_bytes);
    let is_valid = hosts.next().is_none()
        && match (authority, host) {
            (Some(authority), Some(host)) => {
                is_host(authority) && authority.eq_ignore_ascii_case(host)
            }
            (Some(one), None) | (None, Some(one)) => is_host(one),
            (None, None) => false,
        };
    if !is_valid {
        return Err(RequestError::bad_request(
            codes::MALFORMED_REQUEST,
            "A request must have exactly one :authority or Host that names a host",
        ));
    }
    Ok(())
}

fn is_transfer_encoding_supported(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Returns `true` if the value has the form `uri-host [ ":" port ]` (RFC 9110, section 7.2) and the
/// host is not empty.
fn is_host(value: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(value) else {
        return false;
    };
    let host = authority.host();
    let port = authority.as_str().strip_prefix(host).and_then(|rest| {
        if rest.is_empty() {
            Some("")
        } else {
            rest.strip_prefix(':')
        }
    });
    !host.is_empty() && port.is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(version: Version, headers: &[(&str, &str)]) -> u16 {
        let mut request = http::Request::builder().version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        check(&parts).map_or_else(|failure| failure.status.as_u16(), |()| 200)
    }

    #[test]
    fn a_request_must_have_exactly_one_host() {
        for (hosts, expected) in [
            (&["a.example"][..], 200),
            (&["a.example:8080"], 200),
            (&["a.example:"], 200),
            (&["127.0.0.1:1"], 200),
            (&["[::1]:8080"], 200),
            (&["[::1]"], 200),
            (&[], 400),
            (&[""], 400),
            (&[":80"], 400),
            (&["a b"], 400),
            (&["a/b"], 400),
            (&["u@a"], 400),
            (&["a:b"], 400),
            (&["a,b"], 200),
            (&["http://a"], 400),
            (&["a", "a"], 400),
        ] {
            let headers: Vec<_> = hosts.iter().map(|host| ("Host", *host)).collect();
            assert_eq!(status(Version::HTTP_11, &headers), expected, "{hosts:?}");
        }
        assert_eq!(status(Version::HTTP_10, &[]), 200);
        assert_eq!(
            status(Version::HTTP_10, &[("Host", "a"), ("Host", "b")]),
            400
        );
    }

    #[test]
    fn an_http_2_request_must_have_exactly_one_authority() {
        for (uri, headers, expected) in [
            ("https://a.example/x", &[][..], 200),
            (
                "https://a.example:8080/x",
                &[("Host", "a.example:8080")],
                200,
            ),
            ("https://a.example/x", &[("Host", "A.example")], 200),
            ("/x", &[("Host", "a.example")], 200),
            ("https://a.example/x", &[("Host", "b.example")], 400),
            (
                "https://a.example/x",
                &[("Host", "a.example"), ("Host", "a.example")],
                400,
            ),
            ("https://u@a.example/x", &[], 400),
            ("https://a.example:b/x", &[], 400),
            ("/x", &[], 400),
            ("/x", &[("Host", "a/b")], 400),
            ("https://a/x", &[("Content-Length", "5")], 200),
            (
                "https://a/x",
                &[("Content-Length", "5"), ("Content-Length", "5")],
                400,
            ),
        ] {
            let mut request = http::Request::builder().version(Version::HTTP_2).uri(uri);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let Ok(request) = request.body(()) else {
                assert_eq!(expected, 400, "{uri}");
                continue;
            };
            let (mut parts, ()) = request.into_parts();
            let status = |parts: &Parts| {
                check(parts).map_or_else(|failure| failure.status.as_u16(), |()| 200)
            };
            assert_eq!(status(&parts), expected, "{uri} {headers:?}");
            for n in parts.headers.len()..MAX_HEADERS {
                parts.headers.append("x", n.into());
            }
            assert_eq!(status(&parts), expected, "{uri} {headers:?}");
            parts.headers.append("x", 0.into());
            assert_eq!(status(&parts), 431, "{uri} {headers:?}");
        }
    }

    #[test]
    fn chunked_is_the_only_transfer_coding() {
        for (codings, expected) in [
            (&["chunked"][..], 200),
            (&["Chunked"], 200),
            (&["gzip, chunked"], 501),
            (&["chunked, chunked"], 501),
            (&["gzip", "chunked"], 501),
            (&["identity"], 501),
            (&[""], 501),
        ] {
            let mut headers = vec![("Host", "a")];
            headers.extend(codings.iter().map(|coding| ("Transfer-Encoding", *coding)));
            assert_eq!(status(Version::HTTP_11, &headers), expected, "{codings:?}");
        }
    }

    #[test]
    fn an_ambiguous_head_is_found_by_its_bytes() {
        let ambiguity_of = |headers: &str| {
            let head = format!("\r\nPOST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
            ambiguity(head.as_bytes()).map(|Ambiguity(text)| text)
        };
        for clear in [
            "",
            "content-LENGTH: 5\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Content-Length: 5\r\nX: Transfer-Encoding: chunked\r\n",
        ] {
            assert_eq!(ambiguity_of(clear), None, "{clear:?}");
        }
        let both = "A request must not have both Content-Length and Transfer-Encoding";
        let twice = "A request must have at most one Content-Length";
        for (headers, text) in [
            ("content-LENGTH: 5\r\nTransfer-Encoding:chunked\r\n", both),
            ("Transfer-Encoding:chunked\r\nContent-Length:5\r\n", both),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", twice),
            ("X: y\nContent-Length: 5\r\n", LINE_ENDS.0),
            ("X: y\n", LINE_ENDS.0),
            ("\r\nGET / HTTP/1.1\r\n", LINE_ENDS.0),
            ("\n", LINE_ENDS.0),
        ] {
            assert_eq!(ambiguity_of(headers), Some(text), "{headers:?}");
        }
        assert!(ambiguity(b"GET / HTTP/1.1\nHost: a\n\n").is_some());
        assert!(ambiguity(b"GET / HTTP/1.1\r\nHost: a").is_some());
        assert!(ambiguity(b"").is_some());
    }
}
