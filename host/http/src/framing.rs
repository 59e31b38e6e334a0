//! Checks of a request's head that RFC 9112 requires and hyper does not perform: exactly one Host header, no transfer coding except `chunked`, and an
//! unambiguous body length.
//!
//! A proxy in front of the service can interpret an ambiguous request differently (request smuggling). hyper rejects a last coding that is not `chunked`,
//! different lengths, and invalid names and values of headers (all 400).

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Version, header};

use crate::rejection::Rejection;

/// Marks a request whose head is ambiguous, with the error text. hyper resolves such ambiguities silently, so the parsed request does not show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unclear(&'static str);

/// Returns the mark if the bytes of a head are ambiguous.
pub(crate) fn unclear(head: &[u8]) -> Option<Unclear> {
    // A recipient may accept a bare LF as the end of a line (section 2.2), but not all recipients do.
    let Some(lines) = head.strip_suffix(b"\r\n\r\n") else {
        return Some(Unclear(LINE_ENDS));
    };
    let (mut lengths, mut codings, mut begun) = (0, 0, false);
    let mut lines = lines.split(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let line = match (line.strip_suffix(b"\r"), lines.peek()) {
            (Some(line), Some(_)) => line,
            (None, None) => line,
            (Some(_), None) | (None, Some(_)) => return Some(Unclear(LINE_ENDS)),
        };
        if begun && line.is_empty() {
            // The bytes are not exactly one head.
            return Some(Unclear(LINE_ENDS));
        }
        begun |= !line.is_empty();
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let named = |header: header::HeaderName| {
            usize::from(name.eq_ignore_ascii_case(header.as_str().as_bytes()))
        };
        lengths += named(header::CONTENT_LENGTH);
        codings += named(header::TRANSFER_ENCODING);
    }
    match (lengths, codings) {
        (0 | 1, 0) | (0, _) => None,
        (_, 0) => Some(Unclear("A request must have at most one Content-Length")),
        _ => Some(Unclear(
            "A request must not have both Content-Length and Transfer-Encoding",
        )),
    }
}

const LINE_ENDS: &str = "The lines of a request's head must end in CR LF";

/// Checks that the head of a request is unambiguous.
///
/// # Errors
/// Returns 400 if the head is ambiguous ([`unclear`]) or does not name exactly one host (section 3.2), and 501 for a transfer coding other than `chunked`
/// (section 6.1).
pub(crate) fn check(parts: &Parts) -> Result<(), Rejection> {
    if let Some(Unclear(sentence)) = parts.extensions.get() {
        return Err(Rejection::bad_request(*sentence));
    }
    if !chunked_or_none(&parts.headers) {
        return Err(Rejection::new(
            StatusCode::NOT_IMPLEMENTED,
            "The only supported Transfer-Encoding is chunked",
        ));
    }
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let well_formed = match (hosts.next(), hosts.next()) {
        (None, _) => parts.version < Version::HTTP_11,
        (Some(host), None) => names_a_host(host.as_bytes()),
        (Some(_), Some(_)) => false,
    };
    if !well_formed {
        return Err(Rejection::bad_request(
            "A request must have exactly one Host header that names a host",
        ));
    }
    Ok(())
}

fn chunked_or_none(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Returns `true` for `uri-host [ ":" port ]` (RFC 9110, section 7.2) with a non-empty host.
fn names_a_host(value: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(value) else {
        return false;
    };
    let (whole, host) = (authority.as_str(), authority.host());
    let port = whole.strip_prefix(host).and_then(|rest| {
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

    fn checked(version: Version, headers: &[(&str, &str)]) -> u16 {
        let mut request = http::Request::builder().version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        check(&parts).map_or_else(|failure| failure.status.as_u16(), |()| 200)
    }

    #[test]
    fn a_request_names_one_host() {
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
            assert_eq!(checked(Version::HTTP_11, &headers), expected, "{hosts:?}");
        }
        assert_eq!(checked(Version::HTTP_10, &[]), 200);
        assert_eq!(
            checked(Version::HTTP_10, &[("Host", "a"), ("Host", "b")]),
            400
        );
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
            assert_eq!(checked(Version::HTTP_11, &headers), expected, "{codings:?}");
        }
    }

    #[test]
    fn a_head_that_could_be_read_in_two_ways_is_known_by_its_bytes() {
        let of = |headers: &str| {
            let head = format!("\r\nPOST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
            unclear(head.as_bytes()).map(|Unclear(sentence)| sentence)
        };
        for clear in [
            "",
            "content-LENGTH: 5\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Content-Length: 5\r\nX: Transfer-Encoding: chunked\r\n",
        ] {
            assert_eq!(of(clear), None, "{clear:?}");
        }
        let both = "A request must not have both Content-Length and Transfer-Encoding";
        let twice = "A request must have at most one Content-Length";
        for (headers, sentence) in [
            ("content-LENGTH: 5\r\nTransfer-Encoding:chunked\r\n", both),
            ("Transfer-Encoding:chunked\r\nContent-Length:5\r\n", both),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", twice),
            ("X: y\nContent-Length: 5\r\n", LINE_ENDS),
            ("X: y\n", LINE_ENDS),
            ("\r\nGET / HTTP/1.1\r\n", LINE_ENDS),
            ("\n", LINE_ENDS),
        ] {
            assert_eq!(of(headers), Some(sentence), "{headers:?}");
        }
        assert!(unclear(b"GET / HTTP/1.1\nHost: a\n\n").is_some());
        assert!(unclear(b"GET / HTTP/1.1\r\nHost: a").is_some());
        assert!(unclear(b"").is_some());
    }
}
