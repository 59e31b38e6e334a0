//! `http-client`: HTTP requests to the hosts that the operator listed for the module.

use std::time::Duration;

use latchmail_bindings::latchmail::host::http_client::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;

use super::Call;
use crate::fetch;

impl Host for Call {
    async fn send(
        &mut self,
        request: wit::Request,
    ) -> wasmtime::Result<Result<wit::Response, Error>> {
        let request = fetch::Request {
            method: request.method,
            url: request.url,
            headers: request.headers,
            body: request.body.into(),
            timeout: request
                .timeout
                .map(|millis| Duration::from_millis(millis.into())),
        };
        let sent = self.services.fetch.send(&self.settings.hosts, request);
        Ok(sent.await.map(response).map_err(|error| {
            let module = &*self.module;
            match error {
                fetch::Error::Denied(sentence) => Error::Denied(sentence),
                fetch::Error::Invalid(sentence) => Error::Invalid(sentence),
                fetch::Error::TooLarge(sentence) => Error::TooLarge(sentence),
                fetch::Error::Unavailable(why) => {
                    tracing::warn!(module, "a module's request was not answered: {why}");
                    Error::Unavailable
                }
                fetch::Error::Unknown(why) => {
                    tracing::warn!(
                        module,
                        "what became of a module's request is not known: {why}"
                    );
                    Error::OutcomeUnknown
                }
            }
        }))
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
