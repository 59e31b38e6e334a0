//! The error types and where each is used.
//!
//! - A module below HTTP has its own error enum with few cases, for example [`crate::directory::Error`] and [`crate::mail::Error`]. "Not found" is `Ok(None)`,
//!   not an error.
//! - Code that produces an HTTP response uses [`Failure`]: a status, a message for the client, and a cause for the log.
//! - An error that prevents the start is a [`StartError`]: one sentence for the operator.
//! - `anyhow` is used only in `main`, `operator`, `dev` and tests.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use http::{HeaderName, HeaderValue, StatusCode, header};

/// An error response: `{"error": text}` with a status (specification, section 7).
#[derive(Debug)]
pub struct Failure {
    /// The status of the response.
    pub status: StatusCode,
    /// The message for the client. Contains no secrets and no internal details.
    pub text: Cow<'static, str>,
    /// Additional headers of the response (`Allow`, `Retry-After`, …).
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The internal cause. It is logged once, when the response is written, and never sent to the client.
    pub cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Failure {
    /// Creates a failure with any status.
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

    /// 401: the credential is missing or unusable.
    #[must_use]
    pub fn unauthorized(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, text)
    }

    /// 403: the credential is valid, but the action is not permitted.
    #[must_use]
    pub fn forbidden(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// 404: the resource does not exist or the caller may not see it.
    #[must_use]
    pub fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// 404: the mailbox does not exist or is not shared with the caller.
    #[must_use]
    pub fn no_mailbox() -> Self {
        Self::not_found("Mailbox not found")
    }

    /// 409: the resource already exists, or another resource depends on it.
    #[must_use]
    pub fn conflict(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, text)
    }

    /// 500: the operation could not be completed. The cause is logged.
    #[must_use]
    pub fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The operation could not be completed",
        )
        .because(cause)
    }

    /// 503: the mail server is starting or unreachable, and nothing has started.
    #[must_use]
    pub fn mail_unavailable() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Mail server is initializing, please try again in a moment",
        )
        .with(header::RETRY_AFTER, HeaderValue::from_static("2"))
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

    /// Replaces the message.
    #[must_use]
    pub fn saying(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.text = text.into();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status.as_u16(), self.text)?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl StdError for Failure {}

impl From<latchmail_shape::Misfit> for Failure {
    fn from(misfit: latchmail_shape::Misfit) -> Self {
        Self::bad_request(misfit.sentence())
    }
}

impl From<crate::directory::Error> for Failure {
    fn from(error: crate::directory::Error) -> Self {
        Self::internal(error)
    }
}

/// An error that prevents the start. The sentence for the operator says what failed, with which value, and why.
#[derive(Debug)]
pub struct StartError(String);

impl StartError {
    /// Creates the error from its sentence.
    #[must_use]
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for StartError {}
