//! The interface `http-client`, for HTTP requests to the hosts that the operator allowed for the
//! module.

use std::time::Duration;

use crate::api::problem;
use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::http_client::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::codes;
use latchmail_core::traces;
use latchmail_net::fetch;

use super::call::Call;
use super::host_call::host_call;

impl Host for Call {
    async fn send(&mut self, request: wit::Request) -> Result<wit::Response, HostError<Error>> {
        let _span = host_call("http-client.send");
        let request = fetch::Request {
            method: request.method,
            url: request.url,
            headers: request.headers,
            trace: traces::current(),
            body: request.body.into(),
            timeout: request
                .timeout
                .map(|millis| Duration::from_millis(millis.into())),
            max_response_size: None,
        };
        if self.preview.records_request(&request.method, &request.url) {
            return Ok(wit::Response {
                status: 204,
                headers: Vec::new(),
                body: Vec::new(),
            });
        }
        let sent = self.services.fetch.send(&self.settings.hosts, request);
        let sent = sent.await.map_err(|error| self.request_error(error))?;
        Ok(response(sent))
    }
}

impl Call {
    /// Converts an error of a request to a WIT error and logs the details. The log line counts
    /// towards the limit on log lines, because a module can repeat failing requests.
    fn request_error(&mut self, error: fetch::Error) -> Error {
        let sentence = error.to_string();
        let (converted, reason) = match error {
            fetch::Error::Denied(_) => {
                return problem::denied(codes::REMOTE_HOST_NOT_ALLOWED, sentence);
            }
            fetch::Error::Invalid(_) => {
                return problem::invalid(codes::REMOTE_REQUEST_INVALID, sentence);
            }
            fetch::Error::TooLarge(_) => {
                return problem::too_large(codes::REMOTE_REQUEST_TOO_LARGE, sentence);
            }
            fetch::Error::Blocked { addresses, .. } => {
                let why = format!("{sentence}: {addresses}");
                (
                    problem::denied(codes::REMOTE_HOST_NOT_ALLOWED, sentence),
                    why,
                )
            }
            fetch::Error::Unavailable(_) => (Error::Unavailable, sentence),
            fetch::Error::OutcomeUnknown(_) => (Error::OutcomeUnknown, sentence),
        };
        if self.count_log_line() {
            let module = &*self.module;
            tracing::warn!(module, "an HTTP request of a module failed: {reason}");
        }
        converted
    }
}

fn response(response: fetch::Response) -> wit::Response {
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.as_str().to_owned(), value.into_owned())
    };
    wit::Response {
        status: response.status.as_u16(),
        headers: response.headers.iter().map(header).collect(),
        body: response.body.into(),
    }
}
