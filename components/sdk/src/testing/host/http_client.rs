//! The HTTP client of the fake host.

use super::FakeHost;
use crate::capability::{Error, HttpClient, HttpRequest, HttpResponse};

impl FakeHost {
    /// Sets the response to requests with this method and exactly this URL. Replaces the previous
    /// response for the same method and URL.
    pub fn set_response(&self, method: &str, url: &str, response: Result<HttpResponse, Error>) {
        let mut remote = self.remote.borrow_mut();
        remote.set_response(method, url, response);
    }

    /// Returns the requests that the module sent, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.remote.borrow().requests().to_vec()
    }
}

/// A request without a defined response is denied, as if the operator did not permit the remote
/// host.
impl HttpClient for FakeHost {
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error> {
        self.check_fault()?;
        self.remote.borrow_mut().respond(request)
    }
}
