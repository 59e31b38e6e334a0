//! A response, read completely.

use http::HeaderMap;
use latchmail_core::codes;
use serde_json::Value;

/// The endpoints with the errors of RFC 6749.
const OAUTH: [&str; 4] = [
    "/auth/token",
    "/auth/register",
    "/auth/device",
    "/auth/revoke",
];

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as JSON; null if it is not JSON.
    pub json: Value,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Sends a request and reads the response.
    pub async fn of(request: reqwest::RequestBuilder) -> Self {
        Self::try_of(request).await.unwrap()
    }

    /// The same, for a request that can fail because a server stops.
    ///
    /// # Errors
    /// The error of the connection.
    pub async fn try_of(request: reqwest::RequestBuilder) -> reqwest::Result<Self> {
        let response = request.send().await?;
        let path = response.url().path().to_owned();
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.bytes().await?.to_vec();
        let response = Self {
            status,
            headers,
            json: serde_json::from_slice(&body).unwrap_or_default(),
            body,
        };
        response.check_code(&path);
        Ok(response)
    }

    /// The same with a JSON body.
    ///
    /// # Errors
    /// The error of the connection.
    pub async fn try_of_json(
        request: reqwest::RequestBuilder,
        body: &Value,
    ) -> reqwest::Result<Self> {
        let request = request.header("Content-Type", "application/json");
        Self::try_of(request.body(body.to_string())).await
    }

    /// Sends a request with a JSON body and reads the response. `serde_json` serializes the body,
    /// because that crate is optimized in debug builds.
    pub async fn of_json(request: reqwest::RequestBuilder, body: &Value) -> Self {
        let request = request.header("Content-Type", "application/json");
        Self::of(request.body(body.to_string())).await
    }

    /// Asserts that a failure has an error code that is listed and belongs to its text. The
    /// endpoints of OAuth have the errors of RFC 6749 instead.
    fn check_code(&self, path: &str) {
        let Some(text) = self.json["error"].as_str() else {
            return;
        };
        if self.status < 400 || OAUTH.contains(&path) {
            return;
        }
        let code = self.json["code"].as_str().unwrap_or_default();
        let status = self.status;
        // The optional module, those of `tests/fixtures` and the examples have codes of their own.
        let own = ["fixture_", "digest_", "slack_", "invalid_jmap_"];
        if own.iter().any(|prefix| code.starts_with(prefix)) {
            return;
        }
        let known = codes::known(code);
        assert!(
            known.is_some_and(|known| known.allows(status, text)),
            "{path}: {status} {}: the code does not belong to the text",
            self.json
        );
        let by_text = codes::of_text(text).map_or(code, |known| known.code.as_str());
        assert_eq!(by_text, code, "{path}: {status} {text}");
    }

    /// Asserts a failure with exactly this status and text, and with its code.
    #[track_caller]
    pub fn fails(&self, status: u16, text: &str) {
        let code = self.json.get("code");
        let expected = serde_json::json!({ "error": text, "code": code });
        assert_eq!((self.status, &self.json), (status, &expected));
    }

    /// Asserts a failure with this status and a text that contains `mention`.
    #[track_caller]
    pub fn fails_mentioning(&self, status: u16, mention: &str) {
        let text = self.json["error"].as_str().unwrap_or_default();
        assert!(
            self.status == status && text.contains(mention),
            "{} {}: expected {status} about {mention:?}",
            self.status,
            self.json
        );
    }

    /// Asserts a success with exactly this status, and returns its JSON.
    #[track_caller]
    pub fn succeeds(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.json);
        self.json
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
