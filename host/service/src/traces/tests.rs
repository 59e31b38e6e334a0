use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use super::*;

#[test]
fn a_span_has_its_parent_times_attributes_and_status() {
    let sink = Arc::<Queue>::default();
    let tracer = Tracer::recording(Arc::clone(&sink) as _, 1.0);
    let (trace, mut span) = tracer.begin(None, || "GET /a".into());
    span.set("http.route", "/a");
    span.set_number("http.response.status_code", 500);
    span.fail("500");
    drop(span);
    let body = messages::request(&messages::resource("host-1"), &sink.take().unwrap().spans);
    let request = ExportTraceServiceRequest::decode(&*body).unwrap();
    let resource = &request.resource_spans[0];
    let keys = resource.resource.as_ref().unwrap().attributes.iter();
    let keys: Vec<&str> = keys.map(|attribute| &*attribute.key).collect();
    assert_eq!(
        keys,
        ["service.name", "service.version", "service.instance.id"]
    );
    let span = &resource.scope_spans[0].spans[0];
    assert_eq!(span.trace_id, trace.id().0);
    assert_eq!(span.span_id.len(), 8);
    assert!(span.parent_span_id.is_empty());
    assert_eq!((&*span.name, span.kind()), ("GET /a", SpanKind::Server));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let times = [span.start_time_unix_nano, span.end_time_unix_nano].map(Duration::from_nanos);
    assert!(times[0] <= times[1] && times[1] <= now);
    assert!(now < times[0] + Duration::from_mins(1));
    assert_eq!(span.status.as_ref().unwrap().code, 2);
    let attributes = format!("{:?}", span.attributes);
    for value in ["StringValue(\"/a\")", "IntValue(500)", "error.type"] {
        assert!(attributes.contains(value), "{attributes}");
    }
}

#[tokio::test]
async fn many_spans_are_sent_at_once_and_too_many_are_lost() {
    let sink = Arc::<Queue>::default();
    let tracer = Tracer::recording(Arc::clone(&sink) as _, 1.0);
    let lost = || metrics::TRACE_SPANS_LOST.with([]).get();
    let before = lost();
    let mut sent = 0;
    while lost() < before + 1.0 {
        drop(tracer.begin(None, || "GET /a".into()));
        sent += 1;
    }
    sink.filled().await;
    let batch = sink.take().unwrap();
    assert_eq!(batch.count, sent - 1);
    let body = messages::request(&messages::resource("host-1"), &batch.spans);
    let request = ExportTraceServiceRequest::decode(&*body).unwrap();
    let spans = &request.resource_spans[0].scope_spans[0].spans;
    assert_eq!(spans.len(), batch.count as usize);
    assert!(sink.take().is_none());
    sink.put_back(batch);
    assert_eq!(sink.take().unwrap().count, sent - 1);
}
