//! Conversions between the host's requests and responses and those of modules, and the errors for failed calls.

use http::{HeaderValue, Method, StatusCode, header};
use latchmail_bindings::Blob;
use latchmail_runtime::modules::{self, BodyForm, CallError, Content, Response, Route};

use super::message::{Reply, Request};
use crate::rejection::Rejection;

/// Converts a request for a sandbox.
#[must_use]
pub fn request(route: &Route, mut request: Request) -> modules::Request {
    let origin = request.origin();
    // A module gets the caller, so it does not need the credential.
    request.headers.remove(header::AUTHORIZATION);
    request.headers.remove(header::COOKIE);
    modules::Request {
        id: request.id,
        path: request.path,
        query: request.query,
        headers: request.headers,
        body: match route.body {
            BodyForm::Bytes => Content::Bytes(request.body),
            BodyForm::Blob => Content::Blob(Blob::new(request.body)),
        },
        blobs: request.fields.into_iter().map(Blob::new).collect(),
        caller: request.caller,
        origin,
    }
}

/// Converts a module's response.
#[must_use]
pub fn reply(response: Response) -> Reply {
    Reply {
        status: response.status,
        headers: response.headers,
        body: response.body,
    }
}

/// Converts a failed call to an error. 503 means that nothing was started and that the client can retry. A call that exceeded its deadline and could have
/// changed something does not return 503.
#[must_use]
pub fn failure(method: &Method, error: CallError) -> Rejection {
    match error {
        CallError::Refused { failure, .. } => return failure.into(),
        CallError::Busy { .. } => busy("The service is busy, please try again in a moment"),
        CallError::Deadline { .. } if reads(method) => late(),
        CallError::Deadline { .. } => unknown(),
        CallError::Trapped { .. } | CallError::Answer { .. } => Rejection::new(
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
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    fn module() -> String {
        "x".into()
    }

    #[test]
    fn a_module_is_handed_no_credential() {
        let mut headers = HeaderMap::new();
        for name in [header::AUTHORIZATION, header::COOKIE, header::ACCEPT] {
            headers.insert(name, HeaderValue::from_static("secret"));
        }
        let given = Request {
            id: "id".into(),
            path: Vec::new(),
            query: Vec::new(),
            headers,
            body: Bytes::from_static(b"body"),
            fields: Vec::new(),
            client: [127, 0, 0, 1].into(),
            caller: None,
        };
        let mut route = crate::testing::route("POST", "/a");
        route.body = BodyForm::Blob;
        let handed = request(&route, given);
        assert_eq!(handed.headers.keys().collect::<Vec<_>>(), [&header::ACCEPT]);
        let Content::Blob(blob) = handed.body else {
            panic!("bytes");
        };
        assert_eq!(blob.into_bytes().unwrap(), "body");
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
        let wrong = CallError::Answer {
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
