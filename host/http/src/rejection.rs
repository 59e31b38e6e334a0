//! The response to a request that fails: a status and `{"error": text}` (specification, section 7).

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use http::{HeaderName, HeaderValue, StatusCode, header};
use latchmail_core::error::{Failure, Kind};

use super::rate_limit;

/// A request that fails.
#[derive(Debug)]
pub struct Rejection {
    /// The status of the response.
    pub status: StatusCode,
    /// The message for the client. Contains no secrets and no internal details.
    pub text: Cow<'static, str>,
    /// Additional headers of the response (`Allow`, `Retry-After`, …).
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The internal cause. It is logged once, when the response is written, and never sent to the client.
    pub cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Rejection {
    /// Creates a rejection with any status.
    #[must_use]
    pub fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            text: text.into(),
            headers: Vec::new(),
            cause: None,
        }
    }

    /// 400: the request is malformed, or a field is missing or out of range. The text names the field.
    #[must_use]
    pub fn bad_request(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Sets the cause for the log.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        let status = match failure.kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Unauthorized => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        let headers = match failure.kind {
            Kind::RateLimited(verdict) => rate_limit::refused(verdict),
            Kind::Unavailable => vec![(header::RETRY_AFTER, HeaderValue::from_static("2"))],
            _ => Vec::new(),
        };
        Self {
            status,
            text: failure.text,
            headers,
            cause: failure.cause,
        }
    }
}

impl From<latchmail_shape::ValidationError> for Rejection {
    fn from(error: latchmail_shape::ValidationError) -> Self {
        Self::bad_request(error.message())
    }
}

impl From<latchmail_directory::Error> for Rejection {
    fn from(error: latchmail_directory::Error) -> Self {
        Failure::from(error).into()
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status.as_u16(), self.text)?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl StdError for Rejection {}
