//! A request as a handler sees it, and its answer.

use std::cell::RefCell;
use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::exports::latchmail::host::module::{self as wit, Body};
use crate::capability::Blob;
use crate::disposition;
use crate::failure::Failure;

/// A request that the host has routed, admitted and read.
#[derive(Debug, Default)]
pub struct Request {
    /// The request's id, as in the host's log.
    pub id: String,
    /// The path's named segments, decoded.
    pub path: Vec<(String, String)>,
    /// The query's names and values, decoded.
    pub query: Vec<(String, String)>,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, where it came as bytes.
    pub body: Vec<u8>,
    /// What was decoded from the route's blob fields, until it is taken.
    pub blobs: RefCell<Vec<Option<Blob>>>,
}

impl Request {
    /// A segment of the path; empty where the route does not name it.
    #[must_use]
    pub fn path(&self, name: &str) -> &str {
        find(&self.path, name).unwrap_or_default()
    }

    /// The first value of a query parameter.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<&str> {
        find(&self.query, name)
    }

    /// A header; the first where there are several.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The body as a JSON object.
    ///
    /// # Errors
    /// 400 `Invalid JSON body` where it is not JSON; 400 with a text that names the field where it is of another shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        latchmail_shape::read(&self.body).map_err(|misfit| Failure::bad_request(misfit.sentence()))
    }

    /// What was decoded from a blob field: the body has `index` in its place. None where there is none, or it was taken before.
    #[must_use]
    pub fn take_blob(&self, index: usize) -> Option<Blob> {
        self.blobs.borrow_mut().get_mut(index)?.take()
    }

    /// A segment of the path as a number written in digits alone; none where it is anything else or does not fit.
    #[must_use]
    pub fn path_number<N: FromStr>(&self, name: &str) -> Option<N> {
        number(self.path(name))
    }

    /// The `page` (from 1, default 1) and `limit` (1 to 100) of a list, as an offset and a limit. `complaint` is the text of the 400.
    ///
    /// # Errors
    /// 400 for anything but whole numbers in range. A page past the end is none of those: it is empty.
    pub fn paging(&self, default_limit: u32, complaint: &'static str) -> Result<Paging, Failure> {
        let value = |name, default: u32| match self.query(name) {
            None => Ok(default),
            Some(text) => whole(text).ok_or_else(|| Failure::bad_request(complaint)),
        };
        let page = value("page", 1)?;
        let limit = value("limit", default_limit)?;
        Paging::of(page, limit).ok_or(Failure::bad_request(complaint))
    }
}

/// Which stretch of a list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The page, from 1.
    pub page: u32,
    /// Entries a page.
    pub limit: u32,
    /// Entries before the page.
    pub offset: u32,
}

impl Paging {
    /// The page of this number, from 1, with 1 to 100 entries; none where either is out of range.
    #[must_use]
    pub fn of(page: u32, limit: u32) -> Option<Self> {
        let in_range = page >= 1 && (1..=100).contains(&limit);
        in_range.then(|| Self {
            page,
            limit,
            offset: (page - 1).saturating_mul(limit),
        })
    }
}

impl From<wit::Request> for Request {
    fn from(request: wit::Request) -> Self {
        Self {
            id: request.id,
            path: request.path,
            query: request.query,
            headers: request.headers,
            body: match request.body {
                Body::Bytes(bytes) => bytes,
                Body::Blob(_) => Vec::new(),
            },
            blobs: RefCell::new(
                request
                    .blobs
                    .into_iter()
                    .map(|blob| Some(Blob::Host(blob)))
                    .collect(),
            ),
        }
    }
}

fn find<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
}

/// Digits alone: `parse` on its own would take a sign.
fn number<N: FromStr>(text: &str) -> Option<N> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// A whole number; one that does not fit is as large as any.
fn whole(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u32::MAX))
}

/// An answer: a status, headers and a body.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The body's media type; empty where there is no body.
    pub content_type: &'static str,
    /// Headers besides the content type.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Content,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Content {
    /// Bytes of the module's own.
    Bytes(Vec<u8>),
    /// Bytes that stay with the host.
    Blob(Blob),
}

impl Reply {
    /// 200 with a value as JSON.
    ///
    /// # Errors
    /// 500 where the value cannot be written as JSON, which is the module's fault.
    pub fn json<T: Serialize>(value: &T) -> Result<Self, Failure> {
        Self::with_status(200, value)
    }

    /// Any status with a value as JSON.
    ///
    /// # Errors
    /// 500 where the value cannot be written as JSON, which is the module's fault.
    pub fn with_status<T: Serialize>(status: u16, value: &T) -> Result<Self, Failure> {
        let body = serde_json::to_vec(value)
            .map_err(|_| Failure::new(500, "The operation could not be completed"))?;
        Ok(Self {
            status,
            content_type: JSON,
            headers: Vec::new(),
            body: Content::Bytes(body),
        })
    }

    /// Any status without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self {
            status,
            content_type: "",
            headers: Vec::new(),
            body: Content::Bytes(Vec::new()),
        }
    }

    /// 200 `{"success": true}`.
    ///
    /// # Errors
    /// None in practice; see [`Reply::json`].
    pub fn success() -> Result<Self, Failure> {
        Self::json(&serde_json::json!({ "success": true }))
    }

    /// The same with a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// 200 with a file to be saved under `filename` (RFC 6266). Whatever it is, it is `application/octet-stream`: nothing that a stranger sent is to be
    /// run where it is shown. Nobody but its reader may keep it.
    #[must_use]
    pub fn download(filename: &str, content: Blob) -> Self {
        Self {
            status: 200,
            content_type: "application/octet-stream",
            headers: vec![
                (
                    "content-disposition".into(),
                    disposition::attachment(filename),
                ),
                ("cache-control".into(), "private, no-store".into()),
            ],
            body: Content::Blob(content),
        }
    }
}

const JSON: &str = "application/json";

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        let body = serde_json::json!({ "error": failure.text });
        Self {
            status: failure.status,
            content_type: JSON,
            headers: failure
                .retry_after
                .map(|seconds| ("retry-after".into(), seconds.to_string()))
                .into_iter()
                .collect(),
            body: Content::Bytes(body.to_string().into_bytes()),
        }
    }
}

impl From<Reply> for wit::Response {
    fn from(reply: Reply) -> Self {
        let mut headers = reply.headers;
        if !reply.content_type.is_empty() {
            headers.push(("content-type".into(), reply.content_type.into()));
        }
        Self {
            status: reply.status,
            headers,
            body: match reply.body {
                Content::Bytes(bytes) | Content::Blob(Blob::Bytes(bytes)) => Body::Bytes(bytes),
                Content::Blob(Blob::Host(blob)) => Body::Blob(blob),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &[(&str, &str)]) -> Request {
        Request {
            query: query
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            ..Request::default()
        }
    }

    #[test]
    fn a_page_begins_where_the_one_before_it_ends() {
        let paging = |query: &[(&str, &str)]| asked(query).paging(50, "no").unwrap();
        assert_eq!((paging(&[]).offset, paging(&[]).limit), (0, 50));
        assert_eq!(paging(&[("page", "3"), ("limit", "7")]).offset, 14);
        assert_eq!(paging(&[("page", "99999999999999999999")]).offset, u32::MAX);
    }

    #[test]
    fn a_page_out_of_range_is_refused_and_never_bent() {
        for (name, value) in [
            ("page", "0"),
            ("page", "-1"),
            ("page", "+1"),
            ("page", "1.5"),
            ("page", ""),
            ("page", "x"),
            ("limit", "0"),
            ("limit", "101"),
            ("limit", "99999999999999999999"),
            ("limit", " 5"),
        ] {
            let refused = asked(&[(name, value)]).paging(50, "no").unwrap_err();
            assert_eq!(refused, Failure::bad_request("no"), "{name}={value}");
        }
    }

    #[test]
    fn a_number_in_the_path_is_digits_alone() {
        let request = |uid: &str| Request {
            path: vec![("uid".into(), uid.into())],
            ..Request::default()
        };
        assert_eq!(request("17").path_number::<u64>("uid"), Some(17));
        for uid in ["", "+1", "-1", "1x", "１", "99999999999999999999"] {
            assert_eq!(request(uid).path_number::<u64>("uid"), None, "{uid}");
        }
    }
}
