//! What RFC 9112 asks of a request's head beyond what hyper sees to: one Host, no transfer coding but `chunked`, one word on the
//! body's length.
//!
//! Whoever stands in front of the service may read such a request in another way than we do, and so take one request for two. Left
//! to hyper: a last coding that is not `chunked`, lengths that differ, names and values with what they may not hold (all 400).

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Version, header};

use crate::error::Failure;

/// Marks a request whose head, as it came over the wire, could be read in two ways; in a sentence. hyper settles them silently, and
/// nothing of it is left in what it hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unclear(&'static str);

/// Whether a head, from its first byte to its last, could be read in two ways.
pub(super) fn unclear(head: &[u8]) -> Option<Unclear> {
    // Bare line feeds a recipient may take for line ends (section 2.2), and not all do.
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
            // More than one head: it was not seen whole.
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
        (_, 0) => Some(Unclear("A request has no more than one Content-Length")),
        _ => Some(Unclear(
            "A request has Content-Length or Transfer-Encoding, not both",
        )),
    }
}

const LINE_ENDS: &str = "The lines of a request's head end in CR LF";

/// Lets a request through whose head means one thing only.
///
/// # Errors
/// 400 where it could be read in two ways ([`unclear`]) or names no host or several (section 3.2), 501 for another transfer coding
/// than `chunked` (section 6.1).
pub(super) fn check(parts: &Parts) -> Result<(), Failure> {
    if let Some(Unclear(sentence)) = parts.extensions.get() {
        return Err(Failure::bad_request(*sentence));
    }
    if !chunked_or_none(&parts.headers) {
        return Err(Failure::new(
            StatusCode::NOT_IMPLEMENTED,
            "The only Transfer-Encoding that is understood is chunked",
        ));
    }
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let well_formed = match (hosts.next(), hosts.next()) {
        (None, _) => parts.version < Version::HTTP_11,
        (Some(host), None) => names_a_host(host.as_bytes()),
        (Some(_), Some(_)) => false,
    };
    if !well_formed {
        return Err(Failure::bad_request(
            "A request needs exactly one Host header that names a host",
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

/// `uri-host [ ":" port ]` (RFC 9110, section 7.2), the host not empty.
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
        let both = "A request has Content-Length or Transfer-Encoding, not both";
        let twice = "A request has no more than one Content-Length";
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
