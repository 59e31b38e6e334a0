//! The error response to a failed request. It has a status and the body `{"error": text,
//! "code": code}`.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use http::{HeaderName, HeaderValue, StatusCode, header};
use latchmail_core::error::{Failure, Kind};
use latchmail_core::{Code, codes};
use latchmail_mailbox::outbox;
use latchmail_runtime::manager;
use latchmail_transport::RequestError;

use crate::rate_limit;

/// The value of the header `Retry-After` of 503 responses, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("2");

/// The error response to a failed request.
#[derive(Debug)]
pub struct Rejection {
    /// The status of the response.
    pub status: StatusCode,
    /// The error code for the client.
    pub code: Code,
    /// The message for the client. It contains no secrets and no internal details.
    pub text: Cow<'static, str>,
    /// Additional headers of the response (`Allow`, `Retry-After`, …).
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The internal cause of the error. The service logs the cause with the response, and never
    /// sends the cause to the client.
    pub cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Rejection {
    /// Creates a rejection with a status.
    #[must_use]
    pub fn new(status: StatusCode, code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            code,
            text: text.into(),
            headers: Vec::new(),
            cause: None,
        }
    }

    /// Creates a rejection with the status 400. The request is malformed, or a field is missing or
    /// out of range. `text` contains the name of the field.
    #[must_use]
    pub fn bad_request(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, text)
    }

    /// Creates a rejection with the status 503 and the header `Retry-After`. The request has
    /// changed nothing, so the client can retry.
    #[must_use]
    pub fn unavailable(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, text)
            .with(header::RETRY_AFTER, RETRY_AFTER)
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Sets the internal cause of the error.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        let status = match failure.kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Unauthorized => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
            Kind::Internal | Kind::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::OverQuota => StatusCode::INSUFFICIENT_STORAGE,
        };
        let headers = match failure.kind {
            Kind::RateLimited(limit) => rate_limit::rejection_headers(limit),
            Kind::Unavailable => vec![(header::RETRY_AFTER, RETRY_AFTER)],
            _ => Vec::new(),
        };
        Self {
            status,
            code: failure.code,
            text: failure.text,
            headers,
            cause: failure.cause,
        }
    }
}

impl From<RequestError> for Rejection {
    fn from(RequestError { status, code, text }: RequestError) -> Self {
        match status {
            StatusCode::SERVICE_UNAVAILABLE => Self::unavailable(code, text),
            status => Self::new(status, code, text),
        }
    }
}

impl From<latchmail_shape::ValidationError> for Rejection {
    fn from(error: latchmail_shape::ValidationError) -> Self {
        Self::bad_request(error.code(), error.message())
    }
}

impl From<latchmail_directory::Error> for Rejection {
    fn from(error: latchmail_directory::Error) -> Self {
        Failure::from(error).into()
    }
}

/// The owner of a mailbox decides about held messages and undoes changes. Other errors than these
/// are faults of the service.
impl From<latchmail_mailbox::Error> for Rejection {
    fn from(error: latchmail_mailbox::Error) -> Self {
        match error {
            latchmail_mailbox::Error::CredentialRefused => session_over(),
            latchmail_mailbox::Error::Unavailable(why) => {
                Failure::mail_unavailable().because(why).into()
            }
            latchmail_mailbox::Error::Unknown(why) => Failure::unknown(why).into(),
            error => Failure::internal(error).into(),
        }
    }
}

impl From<outbox::Error> for Rejection {
    fn from(error: outbox::Error) -> Self {
        match error {
            outbox::Error::CredentialRefused => session_over(),
            outbox::Error::Unavailable(why) | outbox::Error::Lost(why) => {
                Failure::mail_unavailable().because(why).into()
            }
            error => Failure::internal(error).into(),
        }
    }
}

/// Returns the rejection of a request whose session ended during the request.
pub(crate) fn session_over() -> Rejection {
    let text = "Mail session expired, please log in again";
    Failure::unauthorized(codes::MAIL_SESSION_EXPIRED, text).into()
}

impl From<manager::Error> for Rejection {
    fn from(error: manager::Error) -> Self {
        let error = match error {
            manager::Error::Directory(error) => return error.into(),
            other => other,
        };
        let (status, code) = match &error {
            manager::Error::Invalid(_) => (StatusCode::BAD_REQUEST, codes::MODULE_INVALID),
            manager::Error::NotFound(_) => (StatusCode::NOT_FOUND, codes::MODULE_NOT_FOUND),
            manager::Error::Conflict(_) => (StatusCode::CONFLICT, codes::MODULE_CONFLICT),
            manager::Error::ConsentRequired(_) => {
                (StatusCode::CONFLICT, codes::MODULE_CONSENT_REQUIRED)
            }
            manager::Error::Directory(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL_ERROR)
            }
        };
        Self::new(status, code, capitalize(&error.to_string()))
    }
}

impl From<latchmail_handlers::Error> for Rejection {
    fn from(error: latchmail_handlers::Error) -> Self {
        match error {
            latchmail_handlers::Error::NotFound(text) => Self::new(
                StatusCode::NOT_FOUND,
                codes::MODULE_NOT_FOUND,
                capitalize(&text),
            ),
            latchmail_handlers::Error::Mailbox(error) => {
                let text = "Mail server is unavailable, please try again in a moment";
                Self::unavailable(codes::MAIL_SERVER_UNAVAILABLE, text).because(error)
            }
            latchmail_handlers::Error::Failed(failure) => failure.into(),
        }
    }
}

/// Returns `text` with an upper-case first letter.
fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status.as_u16(), self.text)?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl StdError for Rejection {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_repeat_a_request_that_the_transport_cannot_serve_now() {
        for (status, expected) in [(503, Some("retry-after")), (413, None)] {
            let status = StatusCode::from_u16(status).unwrap();
            let rejection = Rejection::from(RequestError::new(status, codes::SERVICE_BUSY, "busy"));
            let first = rejection.headers.first().map(|(name, _)| name.as_str());
            assert_eq!((rejection.status, first), (status, expected));
        }
    }
}
