//! `latchmail:host/http-client`: HTTP requests to permitted hosts.

use super::{Error, Host};
use crate::bindings::latchmail::host::http_client;
pub use crate::bindings::latchmail::host::http_client::{
    Request as HttpRequest, Response as HttpResponse,
};

/// HTTP requests to the hosts that the operator permitted for the module. Redirects are not followed.
pub trait HttpClient {
    /// Sends a request and waits for the whole response, which can have any status.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] for a host that is not permitted or resolves only to blocked addresses, [`Error::Invalid`] for an invalid
    /// request, [`Error::TooLarge`] if the request or its response is larger than 4 MiB, [`Error::Unavailable`] if there is no response and
    /// the request changed nothing, and [`Error::OutcomeUnknown`] if the request was sent and there is no complete response.
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error>;
}

impl HttpClient for Host {
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error> {
        http_client::send(request)
    }
}
