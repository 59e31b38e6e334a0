use std::sync::Mutex;

use super::*;

const RECEIVED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn start(name: &'static str) -> Span {
    Span::start(Kind::Internal, || name.into())
}

#[derive(Debug, Default)]
struct Finished(Mutex<Vec<SpanData>>);

impl SpanSink for Finished {
    fn add(&self, span: SpanData) {
        self.0.lock().unwrap().push(span);
    }
}

fn recording(sample_ratio: f64) -> (Tracer, Arc<Finished>) {
    let finished = Arc::<Finished>::default();
    let sink = Arc::clone(&finished);
    (Tracer::recording(sink, sample_ratio), finished)
}

/// Returns the finished spans, by name.
fn by_name(finished: &Finished) -> impl Fn(&str) -> SpanData {
    let spans = std::mem::take(&mut *finished.0.lock().unwrap());
    move |name| {
        let mut named = spans.iter().filter(|span| span.name == name);
        let found = named
            .next()
            .unwrap_or_else(|| panic!("no {name} in {spans:?}"));
        assert!(named.next().is_none());
        found.clone()
    }
}

#[tokio::test]
async fn the_parent_of_a_span_is_the_span_that_was_entered_last() {
    let (tracer, finished) = recording(1.0);
    let (trace, root) = tracer.begin(None, || "root".into());
    let id = trace.id();
    let work = async move {
        let sandbox = start("sandbox").entered();
        {
            let _call = start("call").entered();
            drop(start("command"));
            tokio::spawn(in_request(async { drop(start("elsewhere")) }))
                .await
                .unwrap();
        }
        drop(start("second"));
        drop(sandbox);
        drop(start("last"));
        drop(root);
    };
    trace.scope(work).await;
    let span = by_name(&finished);
    assert_eq!(span("root").parent, None);
    for (child, parent) in [
        ("sandbox", "root"),
        ("call", "sandbox"),
        ("command", "call"),
        ("elsewhere", "call"),
        ("second", "sandbox"),
        ("last", "root"),
    ] {
        assert_eq!(span(child).parent, Some(span(parent).id), "{child}");
        assert_eq!(span(child).trace_id, id);
        assert!(span(child).start >= span(parent).start);
    }
}

#[tokio::test]
async fn a_trace_is_continued_and_recorded_only_if_it_is_sampled() {
    let (tracer, finished) = recording(0.0);
    let received = TraceContext::parse(RECEIVED).unwrap();
    let (trace, root) = tracer.begin(Some(received), || "root".into());
    trace.scope(async move { drop(root) }).await;
    let span = by_name(&finished)("root");
    assert_eq!(
        (span.trace_id, span.parent),
        (received.trace_id, Some(received.span_id))
    );

    let is_sampled = false;
    for received in [
        None,
        Some(TraceContext {
            is_sampled,
            ..received
        }),
    ] {
        let (trace, root) = tracer.begin(received, || panic!("the name is computed"));
        let context = trace.scope(async move {
            drop(start("part").entered());
            drop(root);
            current().unwrap()
        });
        let context = context.await;
        assert!(!context.is_sampled);
        assert!(received.is_none_or(|received| received == context));
    }
    assert!(finished.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_tracer_without_a_sink_passes_the_trace_on() {
    let received = TraceContext::parse(RECEIVED).unwrap();
    let (trace, _root) = Tracer::default().begin(Some(received), || panic!("the name is computed"));
    assert_eq!(trace.scope(async { current() }).await, Some(received));
    assert_eq!(current(), None);
}

#[tokio::test]
async fn work_without_a_request_has_a_trace_of_its_own() {
    let (tracer, finished) = recording(1.0);
    let (trace, work) = tracer.begin_work(|| "work".into());
    let work = async move {
        drop(start("part"));
        drop(work);
    };
    trace.scope(work).await;
    let span = by_name(&finished);
    let (work, part) = (span("work"), span("part"));
    assert_eq!((work.kind, work.parent), (Kind::Internal, None));
    assert_eq!((part.trace_id, part.parent), (work.trace_id, Some(work.id)));
}
