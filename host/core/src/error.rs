//! The error types and their uses.
//!
//! - A module below the HTTP server has error enums with few cases, for example
//!   `latchmail_directory::Error` and `latchmail_mailbox::Error`. If a resource is not found, the
//!   result is `Ok(None)` and not an error.
//! - An operation that a client requested returns a [`Failure`]: a kind, a code and a message for
//!   the client, and a cause for the log. All codes are in [`latchmail_shape::codes`]. Only the
//!   HTTP server maps kinds to status codes.
//! - An error that prevents the start of the service is a [`StartError`]: one sentence for the
//!   operator.
//! - `anyhow` is used only in programs that report the error to an operator or developer, and in
//!   tests.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::mail_server_start;
use crate::rate_limit::RateLimitStatus;
use crate::{Code, codes};

/// The code and the text of an error. Both are for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The error code.
    pub code: Code,
    /// The error text. The text contains no secrets and no internal details.
    pub text: Cow<'static, str>,
}

impl Problem {
    /// Creates the code and the text of an error.
    #[must_use]
    pub fn new(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The kind of a failure. Clients can see the kind, for example as the status of an HTTP response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is malformed, or a field is missing or out of range.
    Invalid,
    /// The credential is missing or unusable.
    Unauthorized,
    /// The credential is valid, but the action is not permitted.
    Forbidden,
    /// The resource does not exist or is not visible to the caller.
    NotFound,
    /// The resource already exists, or another resource depends on it.
    Conflict,
    /// A rate limit is exceeded.
    RateLimited(RateLimitStatus),
    /// The operation could not be completed.
    Internal,
    /// A change has started and its outcome is unknown.
    Unknown,
    /// A server that the operation needs is unreachable, and nothing was changed. The client can
    /// retry after two seconds.
    Unavailable,
}

/// The failure of an operation that a client requested.
#[derive(Debug)]
pub struct Failure {
    /// The kind of the failure.
    pub kind: Kind,
    /// The error code for the client.
    pub code: Code,
    /// The error text for the client. The text contains no secrets and no internal details.
    pub text: Cow<'static, str>,
    /// The internal cause. The cause is logged once, when the response is written. It is never sent
    /// to the client.
    pub cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Failure {
    fn new(kind: Kind, code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            code,
            text: text.into(),
            cause: None,
        }
    }

    /// Creates a failure for a malformed request, or for a field that is missing or out of range.
    /// `text` must name the field.
    #[must_use]
    pub fn invalid(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Invalid, code, text)
    }

    /// Creates a failure for a missing or unusable credential.
    #[must_use]
    pub fn unauthorized(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Unauthorized, code, text)
    }

    /// Creates a failure for a valid credential that does not permit the action.
    #[must_use]
    pub fn forbidden(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Forbidden, code, text)
    }

    /// Creates a failure for a resource that does not exist or is not visible to the caller.
    #[must_use]
    pub fn not_found(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::NotFound, code, text)
    }

    /// Creates a failure for a mailbox that does not exist or is not shared with the caller.
    #[must_use]
    pub fn no_mailbox() -> Self {
        Self::not_found(codes::MAILBOX_NOT_FOUND, "Mailbox not found")
    }

    /// Creates a failure for a resource that already exists, or on which another resource depends.
    #[must_use]
    pub fn conflict(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Conflict, code, text)
    }

    /// Creates a failure for an exceeded rate limit.
    #[must_use]
    pub fn rate_limited(status: RateLimitStatus) -> Self {
        Self::new(
            Kind::RateLimited(status),
            codes::RATE_LIMITED,
            "Too many requests, please try again later",
        )
    }

    /// Creates a failure for an exceeded rate limit. The limit is `limit` requests. `wait` is the
    /// time until a request is accepted. `reset` is the time at which the bucket is completely
    /// refilled.
    #[must_use]
    pub fn spent(limit: u32, wait: Duration, reset: Timestamp) -> Self {
        Self::rate_limited(RateLimitStatus::new(limit, 0, reset, Some(wait)))
    }

    /// Creates a failure for an operation that could not be completed. The cause is logged.
    #[must_use]
    pub fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let text = "The operation could not be completed";
        Self::new(Kind::Internal, codes::INTERNAL_ERROR, text).because(cause)
    }

    /// Creates a failure for a change whose outcome is unknown. The cause is logged.
    #[must_use]
    pub fn unknown(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let text =
            "The operation was begun and its outcome is not known; check before you repeat it";
        Self::new(Kind::Unknown, codes::OUTCOME_UNKNOWN, text).because(cause)
    }

    /// Creates a failure for an operation that needs an unreachable server. The operation must not
    /// have changed anything.
    #[must_use]
    pub fn unavailable(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Unavailable, code, text)
    }

    /// Creates a failure for an operation that needs the mail server, which is starting or
    /// unreachable ([`mail_server_start`]). The operation must not have changed anything.
    #[must_use]
    pub fn mail_unavailable() -> Self {
        if mail_server_start::is_starting() {
            Self::unavailable(
                codes::MAIL_SERVER_INITIALIZING,
                "Mail server is initializing, please try again in a moment",
            )
        } else {
            Self::unavailable(
                codes::MAIL_SERVER_UNAVAILABLE,
                "Mail server is unavailable, please try again in a moment",
            )
        }
    }

    /// Sets the internal cause, which is logged.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }
}

impl RateLimitStatus {
    /// Returns the status if the request was accepted.
    ///
    /// # Errors
    /// Returns [`Kind::RateLimited`] if the request was rejected.
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

/// An error that prevents the start of the service. The error contains one sentence for the
/// operator: what failed, with which value, and why.
#[derive(Debug)]
pub struct StartError(String);

impl StartError {
    /// Creates an error with this sentence.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_distinguishes_a_starting_mail_server_from_an_outage() {
        let starting = Failure::mail_unavailable();
        assert_eq!(starting.code, codes::MAIL_SERVER_INITIALIZING);
        assert_eq!(
            starting.text,
            "Mail server is initializing, please try again in a moment"
        );
        mail_server_start::set_reached();
        let outage = Failure::mail_unavailable();
        assert_eq!(outage.kind, starting.kind);
        assert_eq!(
            outage.text,
            "Mail server is unavailable, please try again in a moment"
        );
    }
}
