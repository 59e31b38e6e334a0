//! An answer, read.

use http::HeaderMap;
use serde_json::Value;

/// An answer as a client sees it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as JSON; null where it is not JSON.
    pub json: Value,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Sends a request and reads its answer.
    pub async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.bytes().await.unwrap().to_vec();
        Self {
            status,
            headers,
            json: serde_json::from_slice(&body).unwrap_or_default(),
            body,
        }
    }

    /// The same with a JSON body. It is written by code of `serde_json`, which is optimised; `RequestBuilder::json` would be compiled here.
    pub async fn of_json(request: reqwest::RequestBuilder, body: &Value) -> Self {
        let request = request.header("Content-Type", "application/json");
        Self::of(request.body(body.to_string())).await
    }

    /// Whether this is a failure with exactly this status and text.
    #[track_caller]
    pub fn fails(&self, status: u16, text: &str) {
        let expected = serde_json::json!({ "error": text });
        assert_eq!((self.status, &self.json), (status, &expected));
    }

    /// Whether this is a failure with this status whose text mentions something.
    #[track_caller]
    pub fn fails_about(&self, status: u16, mention: &str) {
        let text = self.json["error"].as_str().unwrap_or_default();
        assert!(
            self.status == status && text.contains(mention),
            "{} {}: expected {status} about {mention:?}",
            self.status,
            self.json
        );
    }

    /// The JSON of a success with exactly this status.
    #[track_caller]
    pub fn succeeds(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.json);
        self.json
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
