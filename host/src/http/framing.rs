//! What RFC 9112 asks of a request's head beyond what hyper sees to: one Host, no transfer coding but `chunked`, one word on the
//! body's length.
//!
//! Whoever stands in front of the service may read such a request in another way than we do, and so take one request for two. Left
//! to hyper: a last coding that is not `chunked` (400), lines that end in a bare LF (taken, as section 2.2 allows; it has no switch).

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Version, header};

use crate::error::Failure;

/// Marks a request whose head gave its body's length twice: hyper goes by `Transfer-Encoding` and takes the other header away.
#[derive(Clone, Copy, Debug)]
pub(super) struct BothLengths;

/// Whether a head, as it came over the wire, has `Content-Length` and `Transfer-Encoding`.
pub(super) fn both_lengths(head: &[u8]) -> bool {
    let mut names = head
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .skip_while(|line| line.is_empty())
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split(|byte| *byte == b':').next());
    let (mut length, mut encoding) = (false, false);
    names.any(|name| {
        length |= name.eq_ignore_ascii_case(header::CONTENT_LENGTH.as_str().as_bytes());
        encoding |= name.eq_ignore_ascii_case(header::TRANSFER_ENCODING.as_str().as_bytes());
        length && encoding
    })
}

/// Lets a request through whose head means one thing only.
///
/// # Errors
/// 400 where it names no host or several (section 3.2) or gives its body's length twice (section 6.3), 501 for another transfer
/// coding than `chunked` (section 6.1).
pub(super) fn check(parts: &Parts) -> Result<(), Failure> {
    if parts.extensions.get::<BothLengths>().is_some() {
        return Err(Failure::bad_request(
            "A request has Content-Length or Transfer-Encoding, not both",
        ));
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
    fn a_length_given_twice_is_seen_in_the_head_alone() {
        let head = "\r\nPOST / HTTP/1.1\r\nHost: a\r\ncontent-LENGTH: 5\r\n";
        assert!(both_lengths(
            format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()
        ));
        assert!(both_lengths(
            b"POST / HTTP/1.1\nTransfer-Encoding:chunked\nContent-Length:5\n\n"
        ));
        assert!(!both_lengths(
            format!("{head}\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes()
        ));
        assert!(!both_lengths(
            format!("{head}X: Transfer-Encoding: chunked\r\n\r\n").as_bytes()
        ));
        assert!(!both_lengths(b""));
    }
}
