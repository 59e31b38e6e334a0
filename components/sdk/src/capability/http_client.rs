//! `latchmail:host/http-client`: HTTP requests to permitted remote hosts.

use super::{Error, Host};
use crate::bindings::latchmail::host::http_client;
pub use crate::bindings::latchmail::host::http_client::{
    Request as HttpRequest, Response as HttpResponse,
};

/// HTTP requests to the remote hosts that the operator permits. Redirects are not followed.
pub trait HttpClient {
    /// Sends a request and waits for the complete response. A response with an error status is not
    /// an error of this function.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the remote host is not permitted, or if the host name resolves
    /// only to blocked addresses. Returns [`Error::Invalid`] if the request is invalid. Returns
    /// [`Error::TooLarge`] if the request or the response is larger than 4 MiB.
    ///
    /// If there is no complete response, the error depends on the effect of the request. Returns
    /// [`Error::Unavailable`] if the request changed nothing. Returns [`Error::OutcomeUnknown`] if
    /// the request might have changed something.
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error>;
}

impl HttpClient for Host {
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error> {
        http_client::send(request)
    }
}
