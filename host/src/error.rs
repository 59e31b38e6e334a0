//! Which error type is used where.
//!
//! - A room below HTTP has an error enum of its own, with few named cases: [`crate::directory::Error`], [`crate::mail::Error`].
//!   "Not found" is `Ok(None)` there, not an error.
//! - What answers a client speaks in [`Failure`]: a status, a sentence for a person, and (for the log alone) the cause.
//! - What stops a start is [`StartError`]: one sentence for an operator.
//! - `anyhow` lives in `main`, in `operator`, in `dev` and in tests.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use http::{HeaderName, HeaderValue, StatusCode, header};

/// An answer that is not a success: `{"error": text}` with a status (specification, section 7).
#[derive(Debug)]
pub struct Failure {
    /// The status answered.
    pub status: StatusCode,
    /// The sentence answered. Never holds a secret or the host's own detail.
    pub text: Cow<'static, str>,
    /// Further headers of the answer (`Allow`, `Retry-After`, …).
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// What lies behind it. Logged once, where the answer is written; never answered.
    pub cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Failure {
    /// A failure with any status.
    #[must_use]
    pub fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            text: text.into(),
            headers: Vec::new(),
            cause: None,
        }
    }

    /// 400: malformed, missing or out of range; the text names the field.
    #[must_use]
    pub fn bad_request(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 401: no credential, or one that cannot be used.
    #[must_use]
    pub fn unauthorized(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, text)
    }

    /// 403: a valid credential that is not allowed this.
    #[must_use]
    pub fn forbidden(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// 404: it does not exist, or not for this caller.
    #[must_use]
    pub fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// 404: no such mailbox is the caller's or shared with it.
    #[must_use]
    pub fn no_mailbox() -> Self {
        Self::not_found("Mailbox not found")
    }

    /// 409: it exists already, or something depends on it.
    #[must_use]
    pub fn conflict(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, text)
    }

    /// 500: the operation could not be completed. The cause goes to the log.
    #[must_use]
    pub fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The operation could not be completed",
        )
        .because(cause)
    }

    /// 503: the mail server is starting or cannot be reached, and nothing was begun.
    #[must_use]
    pub fn mail_unavailable() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Mail server is initializing, please try again in a moment",
        )
        .with(header::RETRY_AFTER, HeaderValue::from_static("2"))
    }

    /// The same with a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same with its cause, for the log.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// The same with another sentence.
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

/// What stops a start, in one sentence for an operator: what could not be done, with what, and why.
#[derive(Debug)]
pub struct StartError(String);

impl StartError {
    /// A sentence.
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
