//! Sends the spans of requests to a collector: OTLP over HTTP, as protobuf (OpenTelemetry Protocol
//! 1.0). The crate `latchmail-core` records the spans.
//!
//! This module uses the protobuf messages of OpenTelemetry, and the HTTP client of the service. It
//! does not use the OpenTelemetry SDK: the batch processor of the SDK needs a thread, and the SDK
//! and its exporter read the variables `OTEL_*`, which are not a part of our configuration.

mod messages;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use latchmail_core::config::Telemetry;
use latchmail_core::error::StartError;
use latchmail_core::metrics;
use latchmail_core::traces::Tracer;
use latchmail_net::fetch::{Error, Fetch, Hosts, Request, Target};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use queue::Queue;

/// The interval between requests. If many spans wait, the next request is sent earlier.
const INTERVAL: Duration = Duration::from_secs(3);

/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for the last requests when the service stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The task that sends spans.
#[derive(Debug)]
pub(crate) struct Exporter {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// The result of a request to the collector.
enum Failure {
    /// The same spans can be sent again later.
    Temporary(String),
    /// The collector refused the spans.
    Permanent(String),
}

/// Starts a task that sends spans. If no collector is configured, returns a tracer that records no
/// spans.
///
/// # Errors
/// Returns an error if the host in the URL of the collector is invalid.
pub(crate) fn start(
    config: &Telemetry,
    fetch: Fetch,
    host_id: &str,
) -> Result<(Tracer, Option<Exporter>), StartError> {
    let Some(url) = config.traces_url() else {
        return Ok((Tracer::default(), None));
    };
    let target = url.parse().ok().and_then(|uri| Target::of(&uri));
    let target = target.ok_or_else(|| {
        StartError::new("`telemetry.otlp_endpoint` is not the URL of a host with a valid name")
    })?;
    let queue = Arc::<Queue>::default();
    let tracer = Tracer::recording(Arc::clone(&queue) as _, config.sample_ratio);
    let sender = Sender {
        fetch,
        url,
        hosts: Hosts::only(target),
        resource: messages::resource(host_id),
        queue,
        is_failing: false,
    };
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(sender.run(stopped));
    Ok((tracer, Some(Exporter { stop, task })))
}

impl Exporter {
    /// Sends the remaining spans, for at most five seconds.
    pub(crate) async fn stop(mut self) {
        // An error means that the task has ended.
        let _ = self.stop.send(());
        if timeout(STOP_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the collector did not accept the last spans in time");
        }
    }
}

struct Sender {
    fetch: Fetch,
    url: String,
    /// The host of the collector.
    hosts: Hosts,
    resource: messages::Resource,
    queue: Arc<Queue>,
    /// Whether the previous request failed.
    is_failing: bool,
}

impl Sender {
    /// Sends spans until `stopped` receives a message.
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut is_stopping = false;
        while !is_stopping {
            tokio::select! {
                _ = &mut stopped => is_stopping = true,
                () = sleep(INTERVAL) => {}
                () = self.queue.filled(), if !self.is_failing => {}
            }
            self.send_waiting().await;
        }
    }

    /// Sends the spans that wait. Spans that end during the request wait for the next call, because
    /// many small requests would cost much time.
    async fn send_waiting(&mut self) {
        let Some(batch) = self.queue.take() else {
            return;
        };
        let body = messages::request(&self.resource, &batch.spans);
        let lost = match self.send(body.into()).await {
            Ok(0) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("the collector of traces accepts spans again");
                }
                return;
            }
            Ok(refused) => {
                self.report(&format!("it refused {refused} spans"));
                refused
            }
            Err(Failure::Temporary(reason)) => {
                self.queue.put_back(batch);
                self.report(&reason);
                return;
            }
            Err(Failure::Permanent(reason)) => {
                self.report(&reason);
                batch.count
            }
        };
        metrics::TRACE_SPANS_LOST.with([]).inc_by(lost.into());
    }

    /// Logs a failure, unless the previous request also failed.
    fn report(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(reason, "the collector of traces does not accept spans");
        }
    }

    /// Sends a request. Returns the number of spans that the collector refused.
    async fn send(&self, body: Bytes) -> Result<u32, Failure> {
        let request = Request {
            method: "POST".into(),
            url: self.url.clone(),
            headers: vec![("content-type".into(), "application/x-protobuf".into())],
            body,
            timeout: Some(TIMEOUT),
            ..Request::default()
        };
        let response = match self.fetch.send(&self.hosts, request).await {
            Ok(response) => response,
            Err(error @ (Error::Unavailable(_) | Error::OutcomeUnknown(_))) => {
                return Err(Failure::Temporary(error.to_string()));
            }
            Err(error) => return Err(Failure::Permanent(error.to_string())),
        };
        let reason = || format!("it responded with {}", response.status.as_u16());
        match response.status {
            StatusCode::OK => {}
            // The statuses after which a client may repeat the request (OTLP 1.0, "Failures").
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => return Err(Failure::Temporary(reason())),
            _ => return Err(Failure::Permanent(reason())),
        }
        let response = ExportTraceServiceResponse::decode(response.body).unwrap_or_default();
        let refused = response.partial_success.unwrap_or_default().rejected_spans;
        Ok(u32::try_from(refused).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
