use std::time::UNIX_EPOCH;

use latchmail_core::traces::Kind;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use super::*;

#[test]
fn a_span_has_its_parent_times_attributes_and_status() {
    let (tracer, _, mut spans) = Tracer::recording(4, 1.0);
    let (_, mut span) = tracer.begin(None, || "GET /a".into());
    span.set("http.route", "/a");
    span.set_number("http.response.status_code", 500);
    span.fail("500");
    drop(span);
    let mut data = spans.try_recv().unwrap();
    data.start = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
    data.end = data.start + Duration::from_millis(5);
    assert_eq!(data.kind, Kind::Server);

    let request = messages::request(
        &messages::resource("host-1"),
        vec![messages::span(data.clone())],
    );
    let resource = &request.resource_spans[0];
    let keys = resource.resource.as_ref().unwrap().attributes.iter();
    let keys: Vec<&str> = keys.map(|attribute| &*attribute.key).collect();
    assert_eq!(
        keys,
        ["service.name", "service.version", "service.instance.id"]
    );
    let span = &resource.scope_spans[0].spans[0];
    assert_eq!(span.trace_id, data.trace_id.0);
    assert_eq!(span.span_id, data.id.0);
    assert!(span.parent_span_id.is_empty());
    assert_eq!((&*span.name, span.kind()), ("GET /a", SpanKind::Server));
    assert_eq!(span.start_time_unix_nano, 1_700_000_000_123_456_789);
    assert_eq!(span.end_time_unix_nano, 1_700_000_000_128_456_789);
    assert_eq!(span.status.as_ref().unwrap().code, 2);
    let attributes = format!("{:?}", span.attributes);
    for value in ["StringValue(\"/a\")", "IntValue(500)", "error.type"] {
        assert!(attributes.contains(value), "{attributes}");
    }
}
