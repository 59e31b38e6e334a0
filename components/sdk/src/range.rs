//! Range requests for downloads (RFC 9110, section 14), with one range.

use latchmail_shape::codes;

use crate::capability::Blob;
use crate::failure::Failure;
use crate::message::{Content, Reply, Request};

/// The bytes that a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    /// The offset of the first byte, and the length.
    Part(u64, u64),
    /// The range begins after the last byte.
    Nothing,
}

impl Reply {
    /// Applies the `Range` header of the request to a download. Changes a 200 response to 206 with
    /// one part of the blob, or to 416 if the range begins after the last byte. The response is
    /// complete if the header is malformed or contains several ranges, and if the request has an
    /// `If-Range` header that differs from the `etag` header of the response.
    #[must_use]
    pub fn in_range(mut self, request: &Request) -> Self {
        let Content::Blob(blob) = &self.body else {
            return self;
        };
        if self.status != 200 {
            return self;
        }
        let size = blob.size();
        let etag = self.headers.iter().find(|(name, _)| name == "etag");
        let is_current = |given: &str| etag.is_some_and(|(_, value)| value == given);
        let range = request.header("range");
        let range = range.filter(|_| request.header("if-range").is_none_or(is_current));
        let part = |blob: &Blob, start, length| Content::Blob(blob.slice(start, length));
        match range.map_or(Wanted::All, |range| wanted(range, size)) {
            Wanted::All => {}
            Wanted::Part(start, length) => {
                self.body = part(blob, start, length);
                self.status = 206;
                let end = start + length - 1;
                self = self.with("content-range", &format!("bytes {start}-{end}/{size}"));
            }
            Wanted::Nothing => {
                let failure = Failure::new(
                    416,
                    codes::RANGE_NOT_SATISFIABLE,
                    "The range is outside of the content",
                );
                self = Self::from(failure).with("content-range", &format!("bytes */{size}"));
            }
        }
        self.with("accept-ranges", "bytes")
    }
}

fn wanted(range: &str, size: u64) -> Wanted {
    let Some((unit, set)) = range.split_once('=') else {
        return Wanted::All;
    };
    let Some((first, last)) = set.trim().split_once('-') else {
        return Wanted::All;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::All;
    }
    // A number that is too large is after the last byte.
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (start, end) = match (first.trim(), last.trim()) {
        ("", suffix) => match number(suffix) {
            Some(0) => return Wanted::Nothing,
            Some(suffix) => (size.saturating_sub(suffix), size),
            None => return Wanted::All,
        },
        (first, "") => match number(first) {
            Some(first) => (first, size),
            None => return Wanted::All,
        },
        (first, last) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => (first, last.saturating_add(1).min(size)),
            _ => return Wanted::All,
        },
    };
    if start >= size {
        return Wanted::Nothing;
    }
    Wanted::Part(start, end - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_recognized() {
        for (range, expected) in [
            ("bytes=0-0", Wanted::Part(0, 1)),
            ("bytes=2-", Wanted::Part(2, 8)),
            ("Bytes = 2-4", Wanted::Part(2, 3)),
            ("bytes=8-99", Wanted::Part(8, 2)),
            ("bytes=0-99999999999999999999", Wanted::Part(0, 10)),
            ("bytes=-3", Wanted::Part(7, 3)),
            ("bytes=-99", Wanted::Part(0, 10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=99999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=4-2", Wanted::All),
            ("bytes=0-1,4-5", Wanted::All),
            ("bytes=-", Wanted::All),
            ("bytes=a-", Wanted::All),
            ("bytes=+1-", Wanted::All),
            ("lines=0-1", Wanted::All),
            ("bytes", Wanted::All),
            ("", Wanted::All),
        ] {
            assert_eq!(wanted(range, 10), expected, "{range}");
        }
        assert_eq!(wanted("bytes=0-", 0), Wanted::Nothing);
    }

    fn reply(headers: &[(&str, &str)]) -> Reply {
        let headers = headers.iter();
        let request = Request {
            headers: headers.map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            ..Request::default()
        };
        let reply = Reply::download("a", Blob::Bytes(b"abcdef".to_vec()));
        reply.with("etag", "\"1\"").in_range(&request)
    }

    #[test]
    fn a_response_has_the_requested_part() {
        let header = |reply: &Reply, name: &str| {
            let found = reply.headers.iter().find(|(one, _)| one == name);
            found.map(|(_, value)| value.clone())
        };
        let part = reply(&[("range", "bytes=1-2"), ("if-range", "\"1\"")]);
        assert_eq!(part.status, 206);
        assert_eq!(
            header(&part, "content-range").as_deref(),
            Some("bytes 1-2/6")
        );
        assert!(matches!(&part.body, Content::Blob(Blob::Bytes(bytes)) if bytes == b"bc"));
        let nothing = reply(&[("range", "bytes=6-")]);
        assert_eq!(nothing.status, 416);
        assert_eq!(
            header(&nothing, "content-range").as_deref(),
            Some("bytes */6")
        );
        for headers in [&[][..], &[("range", "bytes=1-2"), ("if-range", "\"2\"")]] {
            let whole = reply(headers);
            assert_eq!(whole.status, 200);
            assert_eq!(header(&whole, "accept-ranges").as_deref(), Some("bytes"));
        }
    }
}
