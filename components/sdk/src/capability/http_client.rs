//! `latchmail:host/http-client`: HTTP requests to permitted hosts.

use super::{Error, Host};
use crate::bindings::latchmail::host::http_client;
pub use crate::bindings::latchmail::host::http_client::{
    Request as HttpRequest, Response as HttpResponse,
};

/// HTTP requests to the hosts that the operator permitted for the module. Redirects are not followed.
pub trait HttpClient {
    /// Sends a request and waits for the complete response. Returns a response with any status.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the remote host is not permitted, or if its name resolves only to blocked addresses. Returns [`Error::Invalid`] if the
    /// request is invalid, and [`Error::TooLarge`] if the request or its response is larger than 4 MiB. Returns [`Error::Unavailable`] if there is no response
    /// and the request changed nothing, and [`Error::OutcomeUnknown`] if the request was sent and there is no complete response.
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error>;
}

impl HttpClient for Host {
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error> {
        http_client::send(request)
    }
}
