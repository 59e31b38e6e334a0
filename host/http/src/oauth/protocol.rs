//! Parses the requests of the OAuth protocols, and creates their error responses.

use http::{HeaderValue, StatusCode, header};
use latchmail_core::error::{Failure, Kind};
use latchmail_oauth::error::{Error, Refusal};

use crate::message::{self, Request, Response};
use crate::query;
use crate::rejection::Rejection;
use crate::response;

/// Converts an OAuth error to a response. `has_authorization` states whether the client sent an
/// `Authorization` header. If the service caused the error, the response has a code of RFC 6749,
/// section 4.1.2.1.
///
/// # Errors
/// Returns the failure if the request exceeded a rate limit.
pub(super) fn error_response(error: Error, has_authorization: bool) -> Result<Response, Rejection> {
    let refusal: Refusal = match error {
        Error::Refused(refusal) => refusal,
        Error::Failed(failure) => return failure_response(failure),
    };
    // RFC 6749, section 5.2, defines these statuses.
    let status = match refusal.code {
        "invalid_client" => StatusCode::UNAUTHORIZED,
        _ => StatusCode::BAD_REQUEST,
    };
    let response = message::json(status, &refusal)?;
    if status == StatusCode::UNAUTHORIZED && has_authorization {
        let challenge = HeaderValue::from_static("Basic realm=\"oauth\"");
        return Ok(response.with(header::WWW_AUTHENTICATE, challenge));
    }
    Ok(response)
}

/// Converts a failure of the service to a response.
fn failure_response(failure: Failure) -> Result<Response, Rejection> {
    let code = match failure.kind {
        Kind::Unavailable => "temporarily_unavailable",
        Kind::Internal | Kind::Unknown => "server_error",
        _ => return Err(failure.into()),
    };
    let refusal = Refusal::new(code, failure.text.clone());
    let rejection = Rejection::from(failure);
    response::log(&rejection);
    let mut response = message::json(rejection.status, &refusal)?;
    response.headers.extend(rejection.headers);
    Ok(response)
}

/// Returns all fields of the form in the request's body (`application/x-www-form-urlencoded` of the
/// URL Standard).
///
/// # Errors
/// Returns an error if the body has another media type or is not a valid form.
pub fn form(request: &Request) -> Result<Vec<(String, String)>, Refusal> {
    let media_type = request.headers.get(header::CONTENT_TYPE);
    let media_type = media_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let media_type = media_type.split(';').next().unwrap_or("").trim();
    if !media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Refusal::request(
            "The body must be application/x-www-form-urlencoded",
        ));
    }
    let body = std::str::from_utf8(&request.body).ok();
    body.and_then(|body| query::parse(body).ok())
        .ok_or_else(|| Refusal::request("The body must be a form in UTF-8"))
}

#[cfg(test)]
mod tests {
    use latchmail_core::codes;

    use super::*;
    use crate::message::Content;

    #[test]
    fn a_failure_of_the_service_has_a_code_of_the_protocol() {
        for (failure, status, code, retry_after) in [
            (
                Failure::unavailable(codes::SERVICE_BUSY, "later"),
                503,
                "temporarily_unavailable",
                Some("2"),
            ),
            (Failure::unknown("lost"), 500, "server_error", None),
            (Failure::internal("broken"), 500, "server_error", None),
        ] {
            let response = error_response(failure.into(), false).unwrap();
            assert_eq!(response.status, status);
            let header = response.headers.get(header::RETRY_AFTER);
            assert_eq!(header.map(|value| value.to_str().unwrap()), retry_after);
            let Content::Bytes(body) = response.body else {
                panic!("{code}");
            };
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["error"], code);
            assert!(body["error_description"].is_string());
        }
    }
}
