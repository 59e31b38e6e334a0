//! The errors for failed calls of modules.

use http::{HeaderValue, Method, StatusCode, header};
use latchmail_runtime::modules::CallError;

use crate::rejection::Rejection;

/// Converts a failed call to an error. 503 means that nothing was started and that the client can retry. A call that exceeded its deadline and could have
/// changed something does not return 503.
#[must_use]
pub fn failure(method: &Method, error: CallError) -> Rejection {
    match error {
        CallError::EndedByHost { failure, .. } => return failure.into(),
        CallError::Busy { .. } => busy("The service is busy, please try again in a moment"),
        CallError::Deadline { .. } if reads(method) => late(),
        CallError::Deadline { .. } => unknown(),
        CallError::Trapped { .. } | CallError::InvalidResponse { .. } => Rejection::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The operation could not be completed",
        ),
    }
    .because(error)
}

/// Returns 503: a call that changes nothing took too long.
#[must_use]
pub fn late() -> Rejection {
    busy("The operation took too long, please try again in a moment")
}

/// Returns 500: a call that may have changed something took too long and is still running.
#[must_use]
pub fn unknown() -> Rejection {
    Rejection::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "The operation took too long and may still complete; check before trying again",
    )
}

/// Returns `true` if the method is safe (RFC 9110, section 9.2.1).
#[must_use]
pub fn reads(method: &Method) -> bool {
    method.is_safe()
}

/// Returns 503: nothing was started, and the client can retry.
#[must_use]
pub fn busy(text: &'static str) -> Rejection {
    Rejection::new(StatusCode::SERVICE_UNAVAILABLE, text)
        .with(header::RETRY_AFTER, HeaderValue::from_static("2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module() -> String {
        "x".into()
    }

    #[test]
    fn a_module_that_had_no_answer_is_answered_for() {
        let status = |method: &Method, error: CallError| failure(method, error).status.as_u16();
        let detail = || "secret".to_owned();
        let trap = CallError::Trapped {
            module: module(),
            detail: detail(),
            backtrace: Vec::new(),
        };
        let wrong = CallError::InvalidResponse {
            module: module(),
            detail: detail(),
        };
        assert_eq!(status(&Method::GET, trap), 500);
        assert_eq!(status(&Method::GET, wrong), 500);
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
    fn the_detail_is_kept_for_the_log_and_the_client_told_when_to_come_back() {
        let trap = CallError::Trapped {
            module: module(),
            detail: "unreachable".into(),
            backtrace: Vec::new(),
        };
        let failed = failure(&Method::GET, trap);
        assert!(!failed.text.contains("unreachable"));
        assert!(failed.cause.unwrap().to_string().contains("unreachable"));
        let busy = failure(&Method::GET, CallError::Busy { module: module() });
        assert_eq!(busy.headers[0].0, header::RETRY_AFTER);
    }
}
