//! The outgoing requests of `wasi:http`, which standard components can send. The same client sends
//! them as those of the interface `http-client`, to the same hosts and with the same limits.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use latchmail_core::traces::{self, TraceContext};
use latchmail_net::fetch::{self, Fetch, MAX_BODY_SIZE};
use tokio::sync::Semaphore;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use super::call::Call;
use super::recorder::Preview;
use super::settings::Settings;

/// The maximum number of requests of one sandbox that are in progress or whose responses the
/// component has not dropped. Additional requests wait. So the host stores at most this number of
/// bodies.
const MAX_CONCURRENT: usize = 4;

/// The maximum number of bytes that a component can write to a body before the host reads them. A
/// component can have many bodies.
const CHUNK_SIZE: usize = 32 * 1024;

/// The maximum number of failed requests of one sandbox that are logged.
const MAX_LOG_LINES: u32 = 20;

/// The client of one sandbox.
#[derive(Clone)]
pub(crate) struct OutgoingHttp {
    module: Arc<str>,
    settings: Arc<Settings>,
    fetch: Fetch,
    preview: Preview,
    permits: Arc<Semaphore>,
    failures: Arc<AtomicU32>,
}

type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpHooks for OutgoingHttp {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _consumed: Io,
    ) -> Box<dyn Future<Output = Result<(http::Response<WasiBody>, Io), Error>> + Send> {
        let client = self.clone();
        let timeout = options.and_then(|options| options.first_byte_timeout);
        let trace = traces::current();
        Box::new(async move {
            let response = client.send(request, timeout, trace).await?;
            let io: Io = Box::new(ready(Ok(())));
            Ok((response, io))
        })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_SIZE
    }
}

impl OutgoingHttp {
    /// Creates the client of the sandbox that makes this call.
    pub(crate) fn new(call: &Call) -> Self {
        Self {
            module: Arc::clone(&call.module),
            settings: Arc::clone(&call.settings),
            fetch: call.services.fetch.clone(),
            preview: call.preview.clone(),
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            failures: Arc::default(),
        }
    }

    async fn send(
        &self,
        request: http::Request<WasiBody>,
        timeout: Option<Duration>,
        trace: Option<TraceContext>,
    ) -> Result<http::Response<WasiBody>, Error> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Error::InternalError(None))?;
        let (head, body) = request.into_parts();
        let body = Limited::new(body, MAX_BODY_SIZE).collect().await;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Error::HttpRequestBodySize(None)
            } else {
                Error::InternalError(Some(error.to_string()))
            }
        })?;
        let mut headers = Vec::with_capacity(head.headers.len());
        for (name, value) in &head.headers {
            // The client sets these headers itself.
            if [header::HOST, header::CONTENT_LENGTH].contains(name) {
                continue;
            }
            let value = value.to_str().map_err(|_| {
                Error::InternalError(Some(format!("the header {name:?} is not ASCII")))
            })?;
            headers.push((name.as_str().to_owned(), value.to_owned()));
        }
        let request = fetch::Request {
            method: head.method.as_str().to_owned(),
            url: head.uri.to_string(),
            headers,
            trace,
            body: body.to_bytes(),
            timeout,
            max_response_size: None,
        };
        let sent = if self.preview.records_request(&request.method, &request.url) {
            fetch::Response {
                status: StatusCode::NO_CONTENT,
                headers: HeaderMap::new(),
                body: Bytes::new(),
            }
        } else {
            let sent = self.fetch.send(&self.settings.hosts, request).await;
            sent.map_err(|error| self.report(error))?
        };
        let body = Full::new(sent.body).map_err(move |never: Infallible| -> Error {
            // The body has the permit until the component drops it.
            let _ = &permit;
            match never {}
        });
        let mut response = http::Response::new(body.boxed_unsync());
        *response.status_mut() = sent.status;
        *response.headers_mut() = sent.headers;
        Ok(response)
    }

    /// Logs the reason of a failed request and returns the error for the component.
    fn report(&self, error: fetch::Error) -> Error {
        if self.failures.fetch_add(1, Ordering::Relaxed) < MAX_LOG_LINES {
            let reason = match &error {
                fetch::Error::Blocked { addresses, .. } => format!("{error}: {addresses}"),
                other => other.to_string(),
            };
            let module = &*self.module;
            tracing::warn!(module, "an HTTP request of a module failed: {reason}");
        }
        match error {
            fetch::Error::Denied(_) => Error::HttpRequestDenied,
            fetch::Error::Blocked { .. } => Error::DestinationIpProhibited,
            fetch::Error::Invalid(text) | fetch::Error::TooLarge(text) => {
                Error::InternalError(Some(text))
            }
            fetch::Error::Unavailable(_) => Error::DestinationUnavailable,
            fetch::Error::OutcomeUnknown(_) => Error::HttpResponseIncomplete,
        }
    }
}
