//! The reason why the server refuses a request.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use http::StatusCode;
use latchmail_core::Code;

/// The reason why the server refuses a request before a route handles it.
#[derive(Debug)]
pub struct RequestError {
    /// The status of the response. With the status 503, the client can send the request again.
    pub status: StatusCode,
    /// The error code for the client.
    pub code: Code,
    /// The message for the client. It contains no secrets and no internal details.
    pub text: Cow<'static, str>,
}

impl RequestError {
    /// Creates an error.
    #[must_use]
    pub fn new(status: StatusCode, code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self { status, code, text }
    }

    /// Creates an error with the status 400.
    pub(crate) fn bad_request(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, text)
    }

    /// Creates an error with the status 503.
    pub(crate) fn unavailable(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, text)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status.as_u16(), self.text)
    }
}

impl Error for RequestError {}
