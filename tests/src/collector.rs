//! A collector of traces. It stores the spans that a service sends, and decodes them with the
//! messages of OpenTelemetry.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
pub use opentelemetry_proto::tonic::trace::v1::Span;
pub use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use tokio::net::TcpListener;

use crate::Service;

/// A running collector. A request with another path than that of traces returns its own header
/// `traceparent` as the body.
#[derive(Debug)]
pub struct Collector {
    /// The address and port.
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    spans: Mutex<Vec<Span>>,
    answer: Mutex<Answer>,
}

/// How the collector responds to spans.
#[derive(Clone, Copy, Debug, Default)]
pub enum Answer {
    /// It stores the spans.
    #[default]
    Accept,
    /// It responds with 503 and stores nothing.
    Unavailable,
    /// It stores the spans, and reports that it refused this number of them.
    Refused(i64),
}

/// The spans of one trace.
#[derive(Debug)]
pub struct Trace(pub Vec<Span>);

impl Collector {
    /// Starts a collector.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                let service = service_fn(move |request| respond(request, Arc::clone(&shared)));
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { drop(connection.await) });
            }
        });
        Self { address, state }
    }

    /// Returns the setting that makes a service send its spans to this collector.
    pub fn setting(&self) -> String {
        format!("telemetry.otlp_endpoint = 'http://{}'", self.address)
    }

    /// Changes how the collector responds.
    pub fn answer(&self, answer: Answer) {
        *self.state.answer.lock().unwrap() = answer;
    }

    /// Stops the service, which then sends its last spans. Returns all spans.
    pub async fn spans_after_stop(&self, service: &mut Service) -> Vec<Span> {
        service.stop().await;
        self.state.spans.lock().unwrap().clone()
    }
}

async fn respond(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap());
    let body = body.collect().await.unwrap().to_bytes();
    if head.uri.path() != "/v1/traces" {
        let trace = header("traceparent").unwrap_or_default().to_owned();
        return Ok(Response::new(Full::from(trace)));
    }
    assert_eq!(header("content-type"), Some("application/x-protobuf"));
    let answer = *state.answer.lock().unwrap();
    if matches!(answer, Answer::Unavailable) {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        return Ok(response);
    }
    let received = ExportTraceServiceRequest::decode(body).unwrap();
    let scopes = received.resource_spans.into_iter();
    let scopes = scopes.flat_map(|resource| resource.scope_spans);
    let mut stored = state.spans.lock().unwrap();
    stored.extend(scopes.flat_map(|scope| scope.spans));
    let partial_success = match answer {
        Answer::Refused(rejected_spans) => Some(ExportTracePartialSuccess {
            rejected_spans,
            ..ExportTracePartialSuccess::default()
        }),
        _ => None,
    };
    let response = ExportTraceServiceResponse { partial_success };
    Ok(Response::new(Full::from(response.encode_to_vec())))
}

impl Trace {
    /// Returns the trace of the request with this id.
    #[track_caller]
    pub fn of_request(all: &[Span], id: &str) -> Self {
        let is_root = |span: &&Span| attribute(span, "latchmail.request_id").as_deref() == Some(id);
        let root = all.iter().find(is_root);
        let root = root.unwrap_or_else(|| panic!("no span of the request {id}: {all:#?}"));
        let of_trace = all.iter().filter(|span| span.trace_id == root.trace_id);
        Self(of_trace.cloned().collect())
    }

    /// Returns the span of the request itself.
    #[track_caller]
    pub fn root(&self) -> &Span {
        let mut roots = self.0.iter().filter(|span| span.kind() == SpanKind::Server);
        roots.next().unwrap()
    }

    /// Returns the first span with this name.
    #[track_caller]
    pub fn named(&self, name: &str) -> &Span {
        let found = self.0.iter().find(|span| span.name == name);
        found.unwrap_or_else(|| panic!("no {name:?}: {:#?}", self.0))
    }

    /// Returns the parent of a span.
    #[track_caller]
    pub fn parent(&self, span: &Span) -> &Span {
        let parent = |other: &&Span| other.span_id == span.parent_span_id;
        self.0.iter().find(parent).unwrap()
    }

    /// Returns the id of the trace, as in the log.
    #[track_caller]
    pub fn id(&self) -> String {
        hexadecimal(&self.root().trace_id)
    }
}

/// Returns the value of an attribute as text.
pub fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|one| one.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{key} is {other:?}"),
    }
}

/// Returns whether a span is marked as failed.
pub fn is_error(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code == 2)
}

/// Returns bytes as hexadecimal digits, as in the header `traceparent`.
pub fn hexadecimal(bytes: &[u8]) -> String {
    latchmail_core::hexadecimal::lower(bytes)
}
