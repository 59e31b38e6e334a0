//! The response that a client receives.

use latchmail_shape::{Code, codes};
use serde_json::{Value, json};

use crate::capability::{Blob, Events};
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

    /// Checks that the response is a failure with this status, this error message and an error
    /// code. If the error message is a fixed text of the bundled modules, the code must be the code
    /// of this text.
    ///
    /// # Panics
    /// Panics if the status or the error message differs, or if the code is missing or wrong.
    #[track_caller]
    pub fn fails(&self, status: u16, sentence: &str) {
        let json = self.json();
        let code = json["code"].as_str().unwrap_or_default().to_owned();
        let expected = json!({ "error": sentence, "code": code });
        assert_eq!((self.status, json), (status, expected));
        assert!(
            Code::parse(code.clone()).is_some(),
            "{code:?} is no error code"
        );
        if let Some(known) = codes::of_text(sentence) {
            assert_eq!(code, known.code.as_str(), "the code of {sentence:?}");
        }
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
                Content::Bytes(bytes)
                | Content::Blob(Blob::Bytes(bytes))
                | Content::Events(Events::Bytes(bytes)) => bytes,
                Content::Json { bytes, texts } if texts.is_empty() => bytes,
                Content::Blob(Blob::Host(_))
                | Content::Events(Events::Host(_))
                | Content::Json { .. } => {
                    panic!("a blob of a host cannot be read in a test")
                }
            },
        }
    }
}
