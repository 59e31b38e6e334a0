//! Other people's servers, as a test wrote them.

use super::host::FakeHost;
use crate::capability::{Error, HttpClient, HttpRequest, HttpResponse};

/// What is answered, and what was asked.
#[derive(Debug, Default)]
pub(super) struct Web {
    answers: Vec<(String, String, Result<HttpResponse, Error>)>,
    asked: Vec<HttpRequest>,
}

impl FakeHost {
    /// What a request with this method to this very address is answered from now on; of several the last.
    pub fn answer(&self, method: &str, url: &str, answer: Result<HttpResponse, Error>) {
        let mut web = self.web.borrow_mut();
        web.answers.push((method.into(), url.into(), answer));
    }

    /// The requests that the module sent, the oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.web.borrow().asked.clone()
    }
}

/// What no test wrote an answer for is denied, as a host is that the operator did not list.
impl HttpClient for FakeHost {
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse, Error> {
        self.working()?;
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
