//! The requests and responses of handlers.

mod json;

use std::cell::RefCell;
use std::str::FromStr;

use latchmail_shape::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::exports::latchmail::host::module::{self as wit, Body};
use crate::bindings::handles::blobs;
use crate::capability::{Blob, Events};
use crate::description::Failed;
use crate::disposition;
use crate::failure::Failure;
use json::Json;

/// A request after routing, authorization and decoding by the host.
#[derive(Debug, Default)]
pub struct Request {
    /// Id of the request. The host's log contains the same id.
    pub id: String,
    /// Names and decoded values of the named path segments.
    pub path: Vec<(String, String)>,
    /// Names and decoded values of the query parameters.
    pub query: Vec<(String, String)>,
    /// Headers with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Bytes of the body. Empty if the body is a blob in the host.
    pub body: Vec<u8>,
    /// Decoded values of the route's blob fields, or the body of a route with a blob body.
    /// [`Request::take_blob`] removes a value from this list.
    pub blobs: RefCell<Vec<Option<Blob>>>,
}

impl Request {
    /// Returns the value of a named path segment. Returns an empty string if the route has no
    /// segment with this name.
    #[must_use]
    pub fn path(&self, name: &str) -> &str {
        find(&self.path, name).unwrap_or_default()
    }

    /// Returns the first value of a query parameter.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<&str> {
        find(&self.query, name)
    }

    /// Returns all values of a query parameter, in their order.
    pub fn query_all(&self, name: &str) -> impl Iterator<Item = &str> {
        let pairs = self.query.iter().filter(move |(key, _)| key == name);
        pairs.map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// Returns 400 `Invalid JSON body` if the body is not JSON. Returns 400 with the name of the
    /// field if a field is missing or has the wrong type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        latchmail_shape::read(&self.body).map_err(Failure::from)
    }

    /// Removes and returns the decoded value of a blob field, or the body of a route with a blob
    /// body, which has the index 0. In the body, the field contains
    /// `index` instead of the value. Returns `None` if the index is invalid or the value was
    /// already removed.
    #[must_use]
    pub fn take_blob(&self, index: usize) -> Option<Blob> {
        self.blobs.borrow_mut().get_mut(index)?.take()
    }

    /// Returns a path segment as a number. Returns `None` unless the segment consists of digits and
    /// the number fits into `N`.
    #[must_use]
    pub fn path_number<N: FromStr>(&self, name: &str) -> Option<N> {
        number(self.path(name))
    }

    /// Parses the query parameters `page` and `limit` of a list. The default page is 1. `limit` is
    /// 1 to 100. `complaint` is the code and the error message for invalid
    /// values.
    ///
    /// # Errors
    /// Returns 400 if a value is not an integer or is out of range. A page after the last page is
    /// valid and empty.
    pub fn paging(
        &self,
        default_limit: u32,
        complaint: (Code, &'static str),
    ) -> Result<Paging, Failure> {
        let page = self.query_number("page", 1, complaint.clone())?;
        let limit = self.query_number("limit", default_limit, complaint.clone())?;
        Paging::of(page, limit).ok_or(Failure::bad_request(complaint.0, complaint.1))
    }

    /// Returns a query parameter as a number. `complaint` is the code and the error message for a
    /// value that is not a number. A number that is too large becomes `u32::MAX`.
    ///
    /// # Errors
    /// Returns 400 if the value does not consist of digits.
    pub fn query_number(
        &self,
        name: &str,
        default: u32,
        complaint: (Code, &'static str),
    ) -> Result<u32, Failure> {
        match self.query(name) {
            None => Ok(default),
            Some(text) => {
                integer(text).ok_or_else(|| Failure::bad_request(complaint.0, complaint.1))
            }
        }
    }
}

/// A page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// Number of the page, from 1.
    pub page: u32,
    /// Number of entries per page.
    pub limit: u32,
    /// Number of entries before the page.
    pub offset: u32,
}

impl Paging {
    /// Creates a page. `page` is at least 1, and `limit` is 1 to 100. Returns `None` if a value is
    /// out of range.
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
        let (body, blobs) = match request.body {
            Body::Bytes(bytes) => (bytes, request.blobs),
            Body::Blob(blob) => (Vec::new(), vec![blob]),
            Body::Events(_) => (Vec::new(), Vec::new()),
        };
        Self {
            id: request.id,
            path: request.path,
            query: request.query,
            headers: request.headers,
            body,
            blobs: RefCell::new(blobs.into_iter().map(Some).collect()),
        }
    }
}

fn find<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
}

/// Parses a number without a sign. `str::parse` alone also accepts a plus sign.
fn number<N: FromStr>(text: &str) -> Option<N> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// Parses a number without a sign. Returns `u32::MAX` if the number is too large.
fn integer(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u32::MAX))
}

/// A response: a status, headers and a body.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Media type of the body, or empty if there is no body.
    pub content_type: &'static str,
    /// Headers other than the content type.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Content,
}

/// The body of a response.
#[derive(Debug)]
pub enum Content {
    /// Bytes in the memory of the module.
    Bytes(Vec<u8>),
    /// Bytes that stay in the host.
    Blob(Blob),
    /// A stream that the host sends after the handler has returned.
    Events(Events),
    /// JSON in the memory of the module, into which the host inserts texts.
    Json {
        /// The JSON without the texts.
        bytes: Vec<u8>,
        /// The offset of each text in `bytes`, and the text. The offsets are in ascending order.
        texts: Vec<(u32, blobs::Blob)>,
    },
}

impl Reply {
    /// Creates a 200 response with a value as JSON.
    ///
    /// # Errors
    /// Returns 500 if the value cannot be serialized. This error is a bug in the module.
    pub fn json<T: Serialize>(value: &T) -> Result<Self, Failure> {
        Self::with_status(200, value)
    }

    /// Creates a 200 response with a JSON object. `value` is serialized as an object, and each of
    /// `texts` becomes an additional member of the object. The texts do not enter the memory of the
    /// module.
    ///
    /// # Errors
    /// Returns 500 if the value cannot be serialized as an object. This error is a bug in the
    /// module.
    pub fn json_with_texts<T: Serialize>(
        value: &T,
        texts: impl IntoIterator<Item = (&'static str, Blob)>,
    ) -> Result<Self, Failure> {
        let mut json = Json::default();
        json.append(value, texts)?;
        Ok(json.into())
    }

    /// Creates a 200 response with a JSON object. `value` is serialized as an object, and gets an
    /// additional member `name` with an array of objects. Each entry of `objects` is an object with
    /// its texts, as for [`Reply::json_with_texts`].
    ///
    /// # Errors
    /// Returns 500 if a value cannot be serialized as an object. This error is a bug in the module.
    pub fn json_list_with_texts<T: Serialize, I: IntoIterator<Item = (&'static str, Blob)>>(
        value: &impl Serialize,
        name: &'static str,
        objects: impl IntoIterator<Item = (T, I)>,
    ) -> Result<Self, Failure> {
        let mut json = Json::default();
        json.begin_member(value, name)?;
        json.bytes.push(b'[');
        for (index, (object, texts)) in objects.into_iter().enumerate() {
            if index > 0 {
                json.bytes.push(b',');
            }
            json.append(&object, texts)?;
        }
        json.bytes.extend(b"]}");
        Ok(json.into())
    }

    /// Creates a 200 response with a JSON object that has a nested object with texts. `value` is
    /// serialized as an object, and gets an additional member `name` with the object `nested` and
    /// its texts, as for [`Reply::json_with_texts`].
    ///
    /// # Errors
    /// Returns 500 if a value cannot be serialized as an object. This error is a bug in the module.
    pub fn json_nested_with_texts<T: Serialize>(
        value: &impl Serialize,
        name: &'static str,
        (nested, texts): (T, impl IntoIterator<Item = (&'static str, Blob)>),
    ) -> Result<Self, Failure> {
        let mut json = Json::default();
        json.append_nested(value, name, (&nested, texts))?;
        Ok(json.into())
    }

    /// Creates a 200 response with a JSON object. `value` is serialized as an object, and gets an
    /// additional member `list` with an array. Each entry of `objects` is an object with a nested
    /// object, as for [`Reply::json_nested_with_texts`].
    ///
    /// # Errors
    /// Returns 500 if a value cannot be serialized as an object. This error is a bug in the module.
    pub fn json_list_nested_with_texts<
        V: Serialize,
        T: Serialize,
        I: IntoIterator<Item = (&'static str, Blob)>,
    >(
        value: &impl Serialize,
        (list, name): (&'static str, &'static str),
        objects: impl IntoIterator<Item = (V, (T, I))>,
    ) -> Result<Self, Failure> {
        let mut json = Json::default();
        json.begin_member(value, list)?;
        json.bytes.push(b'[');
        for (index, (object, (nested, texts))) in objects.into_iter().enumerate() {
            if index > 0 {
                json.bytes.push(b',');
            }
            json.append_nested(&object, name, (&nested, texts))?;
        }
        json.bytes.extend(b"]}");
        Ok(json.into())
    }

    /// Changes the status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Creates a response of any status with a value as JSON.
    ///
    /// # Errors
    /// Returns 500 if the value cannot be serialized. This error is a bug in the module.
    pub fn with_status<T: Serialize>(status: u16, value: &T) -> Result<Self, Failure> {
        Ok(Self {
            status,
            content_type: JSON,
            headers: Vec::new(),
            body: Content::Bytes(serialize(value)?),
        })
    }

    /// Creates a response of any status without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self {
            status,
            content_type: "",
            headers: Vec::new(),
            body: Content::Bytes(Vec::new()),
        }
    }

    /// Creates a 200 response with `{"success": true}`.
    ///
    /// # Errors
    /// Never returns an error, because this value can always be serialized.
    pub fn success() -> Result<Self, Failure> {
        Self::json(&serde_json::json!({ "success": true }))
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Creates a 200 response for a file download. Browsers save the file as `filename` (RFC 6266).
    /// The media type is `application/octet-stream`, because browsers do not run such content.
    /// Caches must not store the response.
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

    /// Creates a 200 response whose body is a stream of the host. The response is not in memory.
    /// Caches must not store it.
    #[must_use]
    pub fn stream(content_type: &'static str, events: Events) -> Self {
        Self {
            status: 200,
            content_type,
            headers: vec![("cache-control".into(), "no-store".into())],
            body: Content::Events(events),
        }
    }

    /// Creates a 200 response for the download of a stored message (`message/rfc822`). Browsers
    /// save the message as `filename`. Caches must not store the response.
    #[must_use]
    pub fn message(filename: &str, content: Blob) -> Self {
        Self {
            content_type: "message/rfc822",
            ..Self::download(filename, content)
        }
    }
}

const JSON: &str = "application/json";

impl From<Json> for Reply {
    fn from(json: Json) -> Self {
        Self {
            status: 200,
            content_type: JSON,
            headers: Vec::new(),
            body: Content::Json {
                bytes: json.bytes,
                texts: json.texts,
            },
        }
    }
}

fn serialize<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(value).map_err(|_| cannot_serialize())
}

fn cannot_serialize() -> Failure {
    Failure::internal()
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        let body = Failed {
            error: failure.text.into_owned(),
            code: failure.code.into(),
        };
        Self {
            status: failure.status,
            content_type: JSON,
            headers: failure
                .retry_after
                .map(|seconds| ("retry-after".into(), seconds.to_string()))
                .into_iter()
                .collect(),
            body: Content::Bytes(serde_json::to_vec(&body).unwrap_or_default()),
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
                Content::Bytes(bytes)
                | Content::Blob(Blob::Bytes(bytes))
                | Content::Events(Events::Bytes(bytes)) => Body::Bytes(bytes),
                Content::Events(Events::Host(events)) => Body::Events(events),
                Content::Blob(blob) => Body::Blob(blob),
                Content::Json { bytes, texts } => {
                    for (offset, text) in texts {
                        if blobs::insert_json_string(offset, text).is_err() {
                            return Reply::from(cannot_serialize()).into();
                        }
                    }
                    Body::Bytes(bytes)
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use latchmail_shape::codes;

    use super::*;

    fn with_query(query: &[(&str, &str)]) -> Request {
        Request {
            query: query
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            ..Request::default()
        }
    }

    #[test]
    fn a_page_begins_after_the_previous_page() {
        let paging = |query: &[(&str, &str)]| {
            with_query(query)
                .paging(50, (codes::NOT_FOUND, "no"))
                .unwrap()
        };
        assert_eq!((paging(&[]).offset, paging(&[]).limit), (0, 50));
        assert_eq!(paging(&[("page", "3"), ("limit", "7")]).offset, 14);
        assert_eq!(paging(&[("page", "99999999999999999999")]).offset, u32::MAX);
    }

    #[test]
    fn a_page_out_of_range_is_refused() {
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
            let refused = with_query(&[(name, value)])
                .paging(50, (codes::INVALID_FIELD, "no"))
                .unwrap_err();
            assert_eq!(
                refused,
                Failure::bad_request(codes::INVALID_FIELD, "no"),
                "{name}={value}"
            );
        }
    }

    #[test]
    fn a_number_in_the_path_consists_of_digits() {
        let request = |uid: &str| Request {
            path: vec![("uid".into(), uid.into())],
            ..Request::default()
        };
        assert_eq!(request("17").path_number::<u64>("uid"), Some(17));
        for uid in ["", "+1", "-1", "1x", "１", "99999999999999999999"] {
            assert_eq!(request(uid).path_number::<u64>("uid"), None, "{uid}");
        }
    }

    #[test]
    fn texts_become_members_of_a_json_object() {
        let json = |value: serde_json::Value, texts: Vec<(&'static str, Blob)>| {
            let reply = Reply::json_with_texts(&value, texts)?;
            let Content::Json { bytes, texts } = reply.body else {
                panic!("{:?}", reply.body);
            };
            assert!(texts.is_empty());
            Ok::<_, Failure>(String::from_utf8(bytes).unwrap())
        };
        let text = || Blob::Bytes("a\"\r\n".into());
        let object = || serde_json::json!({ "uid": 1 });
        assert_eq!(json(object(), vec![]).unwrap(), r#"{"uid":1}"#);
        assert_eq!(
            json(object(), vec![("text", text()), ("html", text())]).unwrap(),
            r#"{"uid":1,"text":"a\"\r\n","html":"a\"\r\n"}"#
        );
        let empty = serde_json::json!({});
        assert_eq!(
            json(empty, vec![("text", text())]).unwrap(),
            r#"{"text":"a\"\r\n"}"#
        );
        assert_eq!(json(serde_json::json!([]), vec![]).unwrap_err().status, 500);
    }

    #[test]
    fn texts_become_members_of_the_objects_of_a_list() {
        let json = |value: serde_json::Value, list: Vec<serde_json::Value>| {
            let text = || [("text", Blob::Bytes("a".into()))];
            let list = list.into_iter().map(|object| (object, text()));
            let reply = Reply::json_list_with_texts(&value, "all", list).unwrap();
            let Content::Json { bytes, .. } = reply.body else {
                panic!("{:?}", reply.body);
            };
            String::from_utf8(bytes).unwrap()
        };
        let list = vec![serde_json::json!({}), serde_json::json!({ "uid": 1 })];
        assert_eq!(
            json(serde_json::json!({ "missing": [2] }), list),
            r#"{"missing":[2],"all":[{"text":"a"},{"uid":1,"text":"a"}]}"#
        );
        assert_eq!(json(serde_json::json!({}), vec![]), r#"{"all":[]}"#);
    }
}
