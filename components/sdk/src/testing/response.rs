//! The response that a client receives.

use serde_json::{Value, json};

use crate::capability::Blob;
use crate::message::{Content, Reply};

/// A response of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Headers with names in lower case, including the content type.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the first value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    /// Panics if the body is not JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| {
            let body = String::from_utf8_lossy(&self.body);
            panic!("the body is not JSON: {body:?}")
        })
    }

    /// Checks that the status is `status`, and returns the body as JSON.
    ///
    /// # Panics
    /// Panics if the status differs or the body is not JSON.
    #[expect(clippy::must_use_candidate, reason = "it is a check too")]
    #[track_caller]
    pub fn succeeds(&self, status: u16) -> Value {
        let body = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{body}");
        self.json()
    }

    /// Checks that the response is a failure with this status and this error message.
    ///
    /// # Panics
    /// Panics if the status or the error message differs.
    #[track_caller]
    pub fn fails(&self, status: u16, sentence: &str) {
        let expected = json!({ "error": sentence });
        assert_eq!((self.status, self.json()), (status, expected));
    }
}

impl From<Reply> for Response {
    fn from(reply: Reply) -> Self {
        let mut headers = reply.headers;
        if !reply.content_type.is_empty() {
            headers.push(("content-type".into(), reply.content_type.into()));
        }
        Self {
            status: reply.status,
            headers,
            body: match reply.body {
                Content::Bytes(bytes) | Content::Blob(Blob::Bytes(bytes)) => bytes,
                Content::Json { bytes, texts } if texts.is_empty() => bytes,
                Content::Blob(Blob::Host(_)) | Content::Json { .. } => {
                    panic!("a blob of a host cannot be read in a test")
                }
            },
        }
    }
}
