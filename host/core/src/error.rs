//! The error types and their uses.
//!
//! - A module below the HTTP server has error enums with few cases, for example `directory::Error` and `mail::Error`. "Not found" is `Ok(None)`, not an error.
//! - An operation that a client requested returns a [`Failure`]: a kind, a message for the client, and a cause for the log. Only the HTTP server knows which
//!   status a kind has.
//! - An error that prevents the start is a [`StartError`]: one sentence for the operator.
//! - `anyhow` is used only in `main`, `operator`, `dev` and tests.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::verdict::Verdict;

/// Why an operation failed, as a client can see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is malformed, or a field is missing or out of range.
    Invalid,
    /// The credential is missing or unusable.
    Unauthorized,
    /// The credential is valid, but the action is not permitted.
    Forbidden,
    /// The resource does not exist, or the caller may not see it.
    NotFound,
    /// The resource already exists, or another resource depends on it.
    Conflict,
    /// A rate limit is exceeded.
    RateLimited(Verdict),
    /// The operation could not be completed.
    Internal,
    /// A server that the operation needs is unreachable, and nothing was changed. The client can retry after two seconds.
    Unavailable,
}

/// The failure of an operation that a client requested.
#[derive(Debug)]
pub struct Failure {
    /// The kind.
    pub kind: Kind,
    /// The message for the client. Contains no secrets and no internal details.
    pub text: Cow<'static, str>,
    /// The internal cause. It is logged once, when the response is written, and never sent to the client.
    pub cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Failure {
    fn new(kind: Kind, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            text: text.into(),
            cause: None,
        }
    }

    /// The request is malformed, or a field is missing or out of range. The text names the field.
    #[must_use]
    pub fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Invalid, text)
    }

    /// The credential is missing or unusable.
    #[must_use]
    pub fn unauthorized(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Unauthorized, text)
    }

    /// The credential is valid, but the action is not permitted.
    #[must_use]
    pub fn forbidden(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Forbidden, text)
    }

    /// The resource does not exist, or the caller may not see it.
    #[must_use]
    pub fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::NotFound, text)
    }

    /// The mailbox does not exist or is not shared with the caller.
    #[must_use]
    pub fn no_mailbox() -> Self {
        Self::not_found("Mailbox not found")
    }

    /// The resource already exists, or another resource depends on it.
    #[must_use]
    pub fn conflict(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Conflict, text)
    }

    /// A rate limit is exceeded.
    #[must_use]
    pub fn rate_limited(verdict: Verdict) -> Self {
        Self::new(
            Kind::RateLimited(verdict),
            "Too many requests, please try again later",
        )
    }

    /// A bucket of `limit` requests is empty for `wait`, and full again at `reset`.
    #[must_use]
    pub fn spent(limit: u32, wait: Duration, reset: Timestamp) -> Self {
        Self::rate_limited(Verdict::new(limit, 0, reset, Some(wait)))
    }

    /// The operation could not be completed. The cause is logged.
    #[must_use]
    pub fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Kind::Internal, "The operation could not be completed").because(cause)
    }

    /// A server that the operation needs is unreachable, and nothing was changed.
    #[must_use]
    pub fn unavailable(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Unavailable, text)
    }

    /// The mail server is starting or unreachable, and nothing was changed.
    #[must_use]
    pub fn mail_unavailable() -> Self {
        Self::unavailable("Mail server is initializing, please try again in a moment")
    }

    /// Sets the cause for the log.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }
}

impl Verdict {
    /// Returns an error if the request was rejected.
    ///
    /// # Errors
    /// [`Kind::RateLimited`].
    pub fn admit(self) -> Result<Self, Failure> {
        match self.retry_after {
            Some(_) => Err(Failure::rate_limited(self)),
            None => Ok(self),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl StdError for Failure {}

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
