//! The error response of a handler, `{"error": text, "code": code}` with a status.

use std::borrow::Cow;

use latchmail_shape::{Code, codes};

use crate::capability::{Caller, Error, Kind, Problem};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// HTTP status.
    pub status: u16,
    /// The error code, by which clients distinguish errors.
    pub code: Code,
    /// The error message, which is a sentence for people.
    pub text: Cow<'static, str>,
    /// Value of the `Retry-After` header, in seconds.
    pub retry_after: Option<u32>,
}

impl Failure {
    /// Creates a failure with any status.
    #[must_use]
    pub fn new(status: u16, code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            code,
            text: text.into(),
            retry_after: None,
        }
    }

    /// Creates a failure with status 400. Use this status if the input is malformed, missing or out
    /// of range.
    #[must_use]
    pub fn bad_request(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, code, text)
    }

    /// Creates a failure with status 404. Use this status if the object does not exist or the
    /// caller cannot see the object.
    #[must_use]
    pub fn not_found(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(404, code, text)
    }

    /// Creates a failure with status 409. Use this status if the object already exists or other
    /// objects depend on the object.
    #[must_use]
    pub fn conflict(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(409, code, text)
    }

    /// Replaces the code and the error message if the status is 500. `text` contains the name of
    /// the failed operation. A failure with another status stays the same.
    #[must_use]
    pub fn failing(self, code: Code, text: &'static str) -> Self {
        if self.status == 500 {
            Self::new(500, code, text)
        } else {
            self
        }
    }

    /// Creates a failure with any status from the code and the text of an error of a capability.
    #[must_use]
    pub fn of_problem(status: u16, problem: Problem) -> Self {
        // The host sends only valid codes.
        let code = Code::parse(problem.code).unwrap_or(codes::INTERNAL_ERROR);
        Self::new(status, code, problem.text)
    }

    /// Converts an error of a capability to a failure. `missing` is the code and the error message
    /// for status 404, because [`Error::NotFound`] contains none.
    ///
    /// If the mail server refuses the caller's credential, the error message depends on the kind of
    /// the credential.
    #[must_use]
    pub fn of(error: Error, missing: (Code, &'static str), host: &impl Caller) -> Self {
        match error {
            Error::NotFound => Self::not_found(missing.0, missing.1),
            Error::Denied(problem) => Self::of_problem(403, problem),
            Error::Invalid(problem) | Error::Rejected(problem) => Self::of_problem(400, problem),
            Error::Conflict(problem) => Self::of_problem(409, problem),
            Error::TooLarge(problem) => Self::of_problem(413, problem),
            Error::CredentialRefused => match host.current().kind() {
                Kind::Session => Self::new(
                    401,
                    codes::MAIL_SESSION_EXPIRED,
                    "Mail session expired, please log in again",
                ),
                _ => Self::new(
                    401,
                    codes::MAIL_CREDENTIAL_REFUSED,
                    "This credential is no longer valid for mail access",
                ),
            },
            Error::Unavailable => Self {
                retry_after: Some(2),
                ..Self::new(
                    503,
                    codes::MAIL_SERVER_UNAVAILABLE,
                    "Mail server is unavailable, please try again in a moment",
                )
            },
            Error::OutcomeUnknown => Self::new(
                500,
                codes::OUTCOME_UNKNOWN,
                "The operation was begun and its outcome is not known; check before you repeat it",
            ),
            Error::Internal => Self::internal(),
        }
    }

    /// Creates the failure with status 500 for an operation that could not be completed.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(
            500,
            codes::INTERNAL_ERROR,
            "The operation could not be completed",
        )
    }
}

impl From<latchmail_shape::ValidationError> for Failure {
    fn from(error: latchmail_shape::ValidationError) -> Self {
        Self::bad_request(error.code(), error.message())
    }
}

impl Problem {
    /// Creates the code and the text of an error.
    #[must_use]
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            text: text.into(),
        }
    }
}

/// Constructors for tests and for implementations of capabilities.
impl Error {
    /// Creates [`Error::Denied`].
    #[must_use]
    pub fn denied(code: Code, text: impl Into<String>) -> Self {
        Self::Denied(Problem::new(code, text))
    }

    /// Creates [`Error::Invalid`].
    #[must_use]
    pub fn invalid(code: Code, text: impl Into<String>) -> Self {
        Self::Invalid(Problem::new(code, text))
    }

    /// Creates [`Error::Conflict`].
    #[must_use]
    pub fn conflict(code: Code, text: impl Into<String>) -> Self {
        Self::Conflict(Problem::new(code, text))
    }

    /// Creates [`Error::TooLarge`].
    #[must_use]
    pub fn too_large(code: Code, text: impl Into<String>) -> Self {
        Self::TooLarge(Problem::new(code, text))
    }

    /// Creates [`Error::Rejected`].
    #[must_use]
    pub fn rejected(code: Code, text: impl Into<String>) -> Self {
        Self::Rejected(Problem::new(code, text))
    }
}
