//! OAuth errors. An error consists of an error code and a sentence for the client's developer (RFC
//! 6749, section 5.2; RFC 7591, section 3.2.2).

use std::borrow::Cow;

use latchmail_core::error::Failure;
use serde::Serialize;
use utoipa::ToSchema;

/// An OAuth error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OAuthError)]
pub struct Refusal {
    /// The OAuth error code.
    #[serde(rename = "error")]
    pub code: &'static str,
    /// A sentence for the client's developer.
    #[serde(rename = "error_description")]
    #[schema(value_type = String)]
    pub description: Cow<'static, str>,
}

impl Refusal {
    /// Creates an error with this code and description.
    #[must_use]
    pub fn new(code: &'static str, description: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            description: description.into(),
        }
    }

    /// Creates the error `invalid_request` for a parameter that is missing, repeated or malformed.
    #[must_use]
    pub fn request(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_request", description)
    }

    /// Creates the error `invalid_client` for an unknown client or a failed authentication.
    #[must_use]
    pub fn client(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_client", description)
    }

    /// Creates the error `invalid_grant` for an invalid code or token, or for a code or token of
    /// another client.
    #[must_use]
    pub fn grant(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_grant", description)
    }
}

/// The error of an OAuth operation.
#[derive(Debug)]
pub enum Error {
    /// The request is rejected with an OAuth error.
    Refused(Refusal),
    /// An internal error occurred, or the request exceeded a rate limit.
    Failed(Failure),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<latchmail_directory::Error> for Error {
    fn from(error: latchmail_directory::Error) -> Self {
        Self::Failed(error.into())
    }
}
