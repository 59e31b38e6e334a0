//! The remote servers that receive the module's requests. A test defines the responses of the
//! servers.

use crate::capability::{Error, HttpRequest, HttpResponse};

#[derive(Debug, Default)]
pub(super) struct RemoteServers {
    /// The method, the URL and the response of each definition. The last matching definition
    /// applies.
    responses: Vec<(String, String, Result<HttpResponse, Error>)>,
    requests: Vec<HttpRequest>,
}

impl RemoteServers {
    /// Sets the response to requests with this method and exactly this URL.
    pub(super) fn set_response(
        &mut self,
        method: &str,
        url: &str,
        response: Result<HttpResponse, Error>,
    ) {
        self.responses.push((method.into(), url.into(), response));
    }

    /// Returns the received requests, oldest first.
    pub(super) fn requests(&self) -> &[HttpRequest] {
        &self.requests
    }

    /// Records a request and returns the defined response.
    pub(super) fn respond(&mut self, request: &HttpRequest) -> Result<HttpResponse, Error> {
        self.requests.push(request.clone());
        let mut latest_first = self.responses.iter().rev();
        let defined =
            latest_first.find(|(method, url, _)| *method == request.method && *url == request.url);
        match defined {
            Some((_, _, response)) => response.clone(),
            None => Err(Error::Denied(format!(
                "The module may not send requests to {}",
                request.url
            ))),
        }
    }
}
