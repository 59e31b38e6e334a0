//! What a client is told that is refused: a code of the protocol and a sentence for its developer (RFC 6749, section 5.2; RFC 7591, section 3.2.2).

use std::borrow::Cow;

use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::Failure;

/// A refusal of the protocol.
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
    /// A refusal.
    #[must_use]
    pub fn new(code: &'static str, description: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            description: description.into(),
        }
    }

    /// `invalid_request`: something is missing, twice there, or of another form.
    #[must_use]
    pub fn request(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_request", description)
    }

    /// `invalid_client`: there is no such client, or it did not prove who it is.
    #[must_use]
    pub fn client(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_client", description)
    }

    /// `invalid_grant`: what is to be exchanged is no good, or somebody else's.
    #[must_use]
    pub fn grant(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_grant", description)
    }

    /// The status of the answer (RFC 6749, section 5.2).
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.code {
            "invalid_client" => StatusCode::UNAUTHORIZED,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Why there is no answer as it was asked for.
#[derive(Debug)]
pub enum Error {
    /// It is refused.
    Refused(Refusal),
    /// It could not be done.
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

impl From<crate::directory::Error> for Error {
    fn from(error: crate::directory::Error) -> Self {
        Self::Failed(error.into())
    }
}
