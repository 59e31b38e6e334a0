//! The request body of operations that receive a refresh token.

use latchmail_core::Code;
use latchmail_shape::{self as shape, ValidationError};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use utoipa::ToSchema;

use super::secret::secret;
use crate::message::Request;
use crate::rejection::Rejection;

/// A request with a refresh token.
#[derive(Deserialize, ToSchema)]
pub struct RefreshBody {
    /// The last refresh token that the client received.
    #[serde(rename = "refreshToken", deserialize_with = "secret")]
    #[schema(value_type = String, min_length = 1)]
    refresh_token: SecretString,
}

/// Returns the refresh token from the body of a request.
///
/// # Errors
/// Returns 400 with the code and the text `missing` if the token is missing, is empty or has the
/// wrong type. Returns 400 with another error text if the body is not JSON.
pub(super) fn refresh_token(
    request: &Request,
    (code, missing): (Code, &'static str),
) -> Result<SecretString, Rejection> {
    if request.body.trim_ascii().is_empty() {
        return Err(Rejection::bad_request(code, missing));
    }
    match shape::read::<RefreshBody>(&request.body) {
        Ok(body) if !body.refresh_token.expose_secret().is_empty() => Ok(body.refresh_token),
        Err(error @ ValidationError::Syntax) => Err(error.into()),
        Ok(_) | Err(ValidationError::Shape(_)) => Err(Rejection::bad_request(code, missing)),
    }
}
