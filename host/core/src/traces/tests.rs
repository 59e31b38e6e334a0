use super::*;

const RECEIVED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn start(name: &'static str) -> Span {
    Span::start(Kind::Internal, || name.into())
}

/// Returns the finished spans, by name.
fn finished(queue: &mut mpsc::Receiver<SpanData>) -> impl Fn(&str) -> SpanData {
    let mut spans = Vec::new();
    while let Ok(span) = queue.try_recv() {
        spans.push(span);
    }
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
    let (tracer, _, mut spans) = Tracer::recording(16, 1.0);
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
    let span = finished(&mut spans);
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
    let (tracer, _, mut spans) = Tracer::recording(16, 0.0);
    let received = TraceContext::parse(RECEIVED).unwrap();
    let (trace, root) = tracer.begin(Some(received), || "root".into());
    trace.scope(async move { drop(root) }).await;
    let span = finished(&mut spans)("root");
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
    assert!(spans.try_recv().is_err());
}

#[tokio::test]
async fn a_tracer_without_a_queue_passes_the_trace_on() {
    let received = TraceContext::parse(RECEIVED).unwrap();
    let (trace, _root) = Tracer::default().begin(Some(received), || panic!("the name is computed"));
    assert_eq!(trace.scope(async { current() }).await, Some(received));
    assert_eq!(current(), None);
}

#[test]
fn a_full_queue_loses_spans_and_wakes_the_receiver() {
    let (tracer, queue, _receiver) = Tracer::recording(4, 1.0);
    let lost = || metrics::TRACE_SPANS_LOST.with([]).get();
    let before = lost();
    for _ in 0..6 {
        drop(tracer.begin(None, || "root".into()));
    }
    assert!(lost() >= before + 2.0);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let woken = std::pin::pin!(queue.half_full()).poll(&mut context);
    assert!(woken.is_ready());
}
