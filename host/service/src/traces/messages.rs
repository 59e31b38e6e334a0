//! Converts spans to the messages of OTLP.

use std::time::{SystemTime, UNIX_EPOCH};

use latchmail_core::traces::{Kind, SpanData, Value};
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{self, InstrumentationScope, KeyValue};
pub(super) use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, SpanFlags, Status};
use prost::Message as _;

const NAME: &str = "latchmail";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the description of this process.
pub(super) fn resource(host_id: &str) -> Resource {
    let attribute = |key, value: &str| attribute(key, AnyValue::StringValue(value.to_owned()));
    Resource {
        attributes: vec![
            attribute("service.name", NAME),
            attribute("service.version", VERSION),
            attribute("service.instance.id", host_id),
        ],
        ..Resource::default()
    }
}

/// The keys of the fields `resource_spans` of a request and `scope_spans` of its resource: the
/// field number and the wire type of a message (Protocol Buffers, "Encoding").
const RESOURCE_SPANS: u8 = 1 << 3 | 2;
const SCOPE_SPANS: u8 = 2 << 3 | 2;

/// Appends a span in the form that [`request`] expects: as a field of `ScopeSpans`.
pub(super) fn append(spans: &mut Vec<u8>, span: Span) {
    let field = ScopeSpans {
        spans: vec![span],
        ..ScopeSpans::default()
    };
    spans.extend(field.encode_to_vec());
}

/// Returns the encoded `ExportTraceServiceRequest` with these spans, which [`append`] has encoded.
pub(super) fn request(resource: &Resource, spans: &[u8]) -> Vec<u8> {
    let scope = ScopeSpans {
        scope: Some(InstrumentationScope {
            name: NAME.into(),
            version: VERSION.into(),
            ..InstrumentationScope::default()
        }),
        ..ScopeSpans::default()
    };
    let resource = ResourceSpans {
        resource: Some(resource.clone()),
        ..ResourceSpans::default()
    };
    let scope = [&scope.encode_to_vec(), spans].concat();
    let resource = [resource.encode_to_vec(), field(SCOPE_SPANS, &scope)].concat();
    field(RESOURCE_SPANS, &resource)
}

/// Encodes a field whose value is a message.
fn field(key: u8, message: &[u8]) -> Vec<u8> {
    let mut field = vec![key];
    // A vector has no maximum length, so this does not fail.
    let _ = prost::encode_length_delimiter(message.len(), &mut field);
    field.extend(message);
    field
}

/// Converts a span.
pub(super) fn span(data: SpanData) -> Span {
    let kind = match data.kind {
        Kind::Server => SpanKind::Server,
        Kind::Client => SpanKind::Client,
        Kind::Internal => SpanKind::Internal,
    };
    let attributes = data.attributes.into_iter().map(|(key, value)| {
        let value = match value {
            Value::Text(text) => AnyValue::StringValue(text.into_owned()),
            Value::Number(number) => AnyValue::IntValue(number),
        };
        attribute(key, value)
    });
    // Bit 0 is the sampled flag of W3C Trace Context.
    let mut flags = 1 | SpanFlags::ContextHasIsRemoteMask as u32;
    if data.kind == Kind::Server && data.parent.is_some() {
        flags |= SpanFlags::ContextIsRemoteMask as u32;
    }
    Span {
        trace_id: data.trace_id.0.into(),
        span_id: data.id.0.into(),
        parent_span_id: data.parent.map_or_else(Vec::new, |parent| parent.0.into()),
        flags,
        name: data.name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: nanoseconds(data.start),
        end_time_unix_nano: nanoseconds(data.end),
        attributes: attributes.collect(),
        status: data.is_error.then(|| Status {
            code: StatusCode::Error.into(),
            ..Status::default()
        }),
        ..Span::default()
    }
}

fn attribute(key: &str, value: AnyValue) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(v1::AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
