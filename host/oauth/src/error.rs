//! OAuth errors: a code of the protocol and a sentence for the client's developer (RFC 6749, section 5.2; RFC 7591, section 3.2.2).

use std::borrow::Cow;

use latchmail_core::error::Failure;
use serde::Serialize;
use utoipa::ToSchema;

/// An error response of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OAuthError)]
pub struct Refusal {
    /// The code of the protocol.
    #[serde(rename = "error")]
    pub code: &'static str,
    /// A sentence for the client's developer.
    #[serde(rename = "error_description")]
    #[schema(value_type = String)]
    pub description: Cow<'static, str>,
}

impl Refusal {
    /// Creates an error.
    #[must_use]
    pub fn new(code: &'static str, description: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            description: description.into(),
        }
    }

    /// Creates `invalid_request`: a parameter is missing, repeated or malformed.
    #[must_use]
    pub fn request(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_request", description)
    }

    /// Creates `invalid_client`: the client is unknown, or its authentication failed.
    #[must_use]
    pub fn client(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_client", description)
    }

    /// Creates `invalid_grant`: the code or token is invalid, or was issued to another client.
    #[must_use]
    pub fn grant(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_grant", description)
    }
}

/// The error of an OAuth operation.
#[derive(Debug)]
pub enum Error {
    /// The request is rejected with an error of the protocol.
    Refused(Refusal),
    /// The request failed.
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
