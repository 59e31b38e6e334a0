//! The error response of a handler, `{"error": text}` with a status.

use std::borrow::Cow;

use crate::capability::{Caller, Error, Kind};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// HTTP status.
    pub status: u16,
    /// The error message, which is a sentence for people.
    pub text: Cow<'static, str>,
    /// Value of the `Retry-After` header, in seconds.
    pub retry_after: Option<u32>,
}

impl Failure {
    /// Creates a failure with any status.
    #[must_use]
    pub fn new(status: u16, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            text: text.into(),
            retry_after: None,
        }
    }

    /// Creates a failure with status 400. Use this status if the input is malformed, missing or out
    /// of range.
    #[must_use]
    pub fn bad_request(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, text)
    }

    /// Creates a failure with status 404. Use this status if the object does not exist or the
    /// caller cannot see the object.
    #[must_use]
    pub fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(404, text)
    }

    /// Creates a failure with status 409. Use this status if the object already exists or other
    /// objects depend on the object.
    #[must_use]
    pub fn conflict(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(409, text)
    }

    /// Replaces the error message if the status is 500. `text` contains the name of the failed
    /// operation. A failure with another status stays the same.
    #[must_use]
    pub fn failing(self, text: &'static str) -> Self {
        if self.status == 500 {
            Self::new(500, text)
        } else {
            self
        }
    }

    /// Converts an error of a capability to a failure. `missing` is the error message for status
    /// 404, because [`Error::NotFound`] contains no message.
    ///
    /// If the mail server refuses the caller's credential, the error message depends on the kind of
    /// the credential.
    #[must_use]
    pub fn of(error: Error, missing: &'static str, host: &impl Caller) -> Self {
        match error {
            Error::NotFound => Self::not_found(missing),
            Error::Denied(text) => Self::new(403, text),
            Error::Invalid(text) | Error::Rejected(text) => Self::new(400, text),
            Error::Conflict(text) => Self::new(409, text),
            Error::TooLarge(text) => Self::new(413, text),
            Error::CredentialRefused => Self::new(
                401,
                match host.current().kind {
                    Kind::Session => "Mail session expired, please log in again",
                    Kind::Anonymous | Kind::ApiToken | Kind::Oauth => {
                        "This credential is no longer valid for mail access"
                    }
                },
            ),
            Error::Unavailable => Self {
                retry_after: Some(2),
                ..Self::new(
                    503,
                    "Mail server is unavailable, please try again in a moment",
                )
            },
            Error::OutcomeUnknown => Self::new(
                500,
                "The operation was begun and its outcome is not known; check before you repeat it",
            ),
            Error::Internal => Self::new(500, "The operation could not be completed"),
            Error::OverQuota => Self::new(507, "The mailbox is full"),
        }
    }
}
