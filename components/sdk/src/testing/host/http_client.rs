//! The HTTP client of the fake host.

use super::FakeHost;
use crate::capability::{Error, HttpClient, HttpRequest, HttpResponse};
use latchmail_shape::codes;

/// Some of the headers that the host sets itself.
const SET_BY_HOST: [&str; 6] = [
    "connection",
    "content-length",
    "host",
    "traceparent",
    "tracestate",
    "transfer-encoding",
];

impl FakeHost {
    /// Sets the response to requests with this method and exactly this URL. Replaces the previous
    /// response for the same method and URL.
    pub fn set_response(&self, method: &str, url: &str, response: Result<HttpResponse, Error>) {
        let key = (method.to_owned(), url.to_owned());
        self.responses.borrow_mut().insert(key, response);
    }

    /// Returns the valid requests that the module sent, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.requests.borrow().clone()
    }
}

/// A request without a defined response is denied, as if the operator did not permit the remote
/// host.
impl HttpClient for FakeHost {
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error> {
        self.check_fault()?;
        if !is_valid(request) {
            return Err(Error::invalid(
                codes::REMOTE_REQUEST_INVALID,
                "The request is malformed",
            ));
        }
        self.requests.borrow_mut().push(request.clone());
        let key = (request.method.clone(), request.url.clone());
        let defined = self.responses.borrow().get(&key).cloned();
        let text = format!("The module may not send requests to {}", request.url);
        defined.unwrap_or(Err(Error::denied(codes::REMOTE_HOST_NOT_ALLOWED, text)))
    }
}

fn is_valid(request: &HttpRequest) -> bool {
    let (scheme, rest) = request.url.split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let set_by_host = |name: &str| SET_BY_HOST.contains(&name.to_ascii_lowercase().as_str());
    !matches!(request.method.as_str(), "CONNECT" | "TRACE")
        && matches!(scheme, "http" | "https")
        && !host.is_empty()
        && !host.contains('@')
        && request.url.bytes().all(|byte| byte.is_ascii_graphic())
        && !request.headers.iter().any(|(name, _)| set_by_host(name))
}
