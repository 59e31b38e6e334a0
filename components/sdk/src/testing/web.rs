//! Remote servers with responses that the test defines.

use super::host::FakeHost;
use crate::capability::{Error, HttpClient, HttpRequest, HttpResponse};

/// The defined responses and the received requests.
#[derive(Debug, Default)]
pub(super) struct Web {
    answers: Vec<(String, String, Result<HttpResponse, Error>)>,
    asked: Vec<HttpRequest>,
}

impl FakeHost {
    /// Sets the response to requests with this method and exactly this URL. A later call replaces an earlier one.
    pub fn answer(&self, method: &str, url: &str, answer: Result<HttpResponse, Error>) {
        let mut web = self.web.borrow_mut();
        web.answers.push((method.into(), url.into(), answer));
    }

    /// Returns the requests that the module sent, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.web.borrow().asked.clone()
    }
}

/// A request without a defined response is denied, like a request to a host that the operator did not permit.
impl HttpClient for FakeHost {
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error> {
        self.check_fault()?;
        let mut web = self.web.borrow_mut();
        web.asked.push(request.clone());
        let answer = web
            .answers
            .iter()
            .rev()
            .find(|(method, url, _)| *method == request.method && *url == request.url);
        answer.map_or_else(
            || {
                Err(Error::Denied(format!(
                    "The module may not send requests to {}",
                    request.url
                )))
            },
            |(_, _, answer)| answer.clone(),
        )
    }
}
