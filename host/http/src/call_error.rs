//! Converts failed calls of modules to error responses.

use http::{Method, StatusCode};
use latchmail_core::codes;
use latchmail_runtime::modules::CallError;

use crate::rejection::Rejection;

/// Converts a failed call of a module to an error response. The status 503 means that the request
/// changed nothing, so the client can retry. The status is 500 if the call exceeded its deadline
/// and data might have changed.
#[must_use]
pub fn rejection(method: &Method, error: CallError) -> Rejection {
    match error {
        CallError::EndedByHost { failure, .. } => return failure.into(),
        CallError::Busy { .. } => Rejection::unavailable(
            codes::SERVICE_BUSY,
            "The service is busy, please try again in a moment",
        ),
        CallError::Deadline { .. } if method.is_safe() => deadline_exceeded(),
        CallError::Deadline { .. } => outcome_unknown(),
        CallError::Trapped { .. } | CallError::InvalidResponse { .. } => Rejection::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            codes::INTERNAL_ERROR,
            "The operation could not be completed",
        ),
    }
    .because(error)
}

/// Returns the 503 error for a call that exceeded its deadline and cannot change data.
#[must_use]
pub fn deadline_exceeded() -> Rejection {
    Rejection::unavailable(
        codes::OPERATION_TIMEOUT,
        "The operation took too long, please try again in a moment",
    )
}

/// Returns the 500 error for a call that exceeded its deadline. The call might have changed data,
/// and might continue.
#[must_use]
pub fn outcome_unknown() -> Rejection {
    Rejection::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        codes::OUTCOME_UNKNOWN,
        "The operation took too long and may still complete; check before trying again",
    )
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;

    fn module() -> String {
        "x".into()
    }

    #[test]
    fn a_failed_call_has_the_status_of_its_error_and_method() {
        let status = |method: &Method, error: CallError| rejection(method, error).status.as_u16();
        let detail = || "secret".to_owned();
        let trap = CallError::Trapped {
            module: module(),
            detail: detail(),
            backtrace: Vec::new(),
        };
        let invalid = CallError::InvalidResponse {
            module: module(),
            detail: detail(),
        };
        assert_eq!(status(&Method::GET, trap), 500);
        assert_eq!(status(&Method::GET, invalid), 500);
        assert_eq!(
            status(&Method::GET, CallError::Deadline { module: module() }),
            503
        );
        assert_eq!(
            status(&Method::POST, CallError::Deadline { module: module() }),
            500
        );
        assert_eq!(
            status(&Method::POST, CallError::Busy { module: module() }),
            503
        );
    }

    #[test]
    fn the_detail_is_only_the_cause_and_a_busy_service_sends_retry_after() {
        let trap = CallError::Trapped {
            module: module(),
            detail: "unreachable".into(),
            backtrace: Vec::new(),
        };
        let trapped = rejection(&Method::GET, trap);
        assert!(!trapped.text.contains("unreachable"));
        assert!(trapped.cause.unwrap().to_string().contains("unreachable"));
        let busy = rejection(&Method::GET, CallError::Busy { module: module() });
        assert_eq!(busy.headers[0].0, header::RETRY_AFTER);
    }
}
