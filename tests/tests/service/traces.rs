//! Traces: the trace id in the log, the header `traceparent`, and the spans that a collector
//! receives.

use latchmail_tests::collector::{
    Answer, Collector, Span, SpanKind, Trace, attribute, hexadecimal, is_error,
};
use latchmail_tests::process::free_address;
use latchmail_tests::{
    EventStream, Log, METRICS, PASSWORD, Receiver, Response, Service, Setup, fixtures, wait_until,
};
use serde_json::json;

const INBOX: &str = "GET /api/v1/mail/folders/INBOX/messages";
const HEALTH: &str = "GET /api/health";
const AVAILABLE: &str = "GET /api/v1/auth/username-available?username=ada";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// The section of a fixture module.
fn module(name: &str, file: &str, more: &str) -> String {
    let file = fixtures().join(file);
    let file = file.display();
    format!("modules.{name}.source = '{file}'\nmodules.{name}.paths = ['/{name}/']\n{more}")
}

/// Returns the value of the header `traceparent`.
fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

async fn send_traced(service: &Service, line: &str, traceparent: &str) -> Response {
    let request = service.request(line);
    Response::of(request.header("traceparent", traceparent)).await
}

fn request_id(response: &Response) -> String {
    response.header("x-request-id").unwrap().to_owned()
}

/// Returns the trace id in the log lines of a request. All lines must have the same one.
#[track_caller]
fn logged_trace(log: &Log, request: &str) -> String {
    let lines = log.lines_with(request);
    let id = |line: &String| {
        let (_, rest) = line.split_once("trace_id=").unwrap();
        rest[..32].to_owned()
    };
    let first = id(lines.first().expect("the request is logged"));
    assert!(lines.iter().all(|line| id(line) == first), "{lines:#?}");
    first
}

/// The message whose sender and subject must not be in spans.
const MESSAGE: &str = "From: zoe@outside.test\nTo: x@first.test\nSubject: Zanzibar\n\nbody\n";

/// Fails if a span contains personal data of the tests, or one of these secrets.
#[track_caller]
fn assert_without_personal_data(spans: &[Span], secrets: &[String]) {
    let all = format!("{spans:?}");
    let secrets = secrets.iter().map(String::as_str);
    for secret in secrets.chain([PASSWORD, "@", "xaverine", "Zanzibar", "zoe", "127.0.0.1"]) {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

#[tokio::test]
async fn a_request_for_mail_has_nested_spans_without_personal_data() {
    let collector = Collector::start().await;
    let setup = Setup::default().with_mail().with(&collector.setting());
    let mut service = setup.start().await;
    let ada = service.person("xaverine").await;
    ada.receive(MESSAGE).await;
    let listing = ada.send(INBOX).await;
    let id = request_id(&listing);
    let mail =
        json!({ "from": ada.address, "to": [ada.address], "subject": "Zanzibar", "text": "a" });
    ada.post("/api/v1/mail/send", &mail).await.succeeds(200);
    let secrets = [ada.address.clone(), ada.access.clone(), ada.refresh.clone()];
    let spans = collector.spans_after_stop(&mut service).await;

    let trace = Trace::of_request(&spans, &id);
    let root = trace.root();
    assert_eq!(root.name, "GET /api/v1/mail/folders/{folder}/messages");
    assert!(root.parent_span_id.is_empty());
    assert_eq!(
        attribute(root, "http.response.status_code").as_deref(),
        Some("200")
    );
    let sandbox = trace.named("sandbox mail");
    assert_eq!(trace.parent(sandbox), root);
    let call = trace.named("host call mailbox.list-messages");
    assert_eq!(trace.parent(call), sandbox);
    let commands = trace.0.iter().filter(|span| span.name.starts_with("imap "));
    let commands: Vec<_> = commands.collect();
    assert!(!commands.is_empty(), "{trace:#?}");
    for command in commands {
        assert_eq!(
            (trace.parent(command), command.kind()),
            (call, SpanKind::Client)
        );
    }
    assert!(trace.0.iter().all(|span| !is_error(span)), "{trace:#?}");
    assert_without_personal_data(&spans, &secrets);
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_streams_and_watched_mailboxes_have_spans_without_personal_data() {
    let (collector, receiver) = (Collector::start().await, Receiver::start().await);
    let settings = format!("{}\n{}", collector.setting(), receiver.setting());
    let setup = Setup::default().with(&settings).with_mail();
    let mut service = setup.without_notices().start().await;
    let ada = service.person("xaverine").await;
    let mut stream = EventStream::open(&ada, "").await;
    let body = json!({ "url": receiver.url("/hook"), "payload": "summary" });
    let created = ada.post("/api/v1/webhooks", &body).await.succeeds(201);
    let id = created["id"].as_str().unwrap();
    ada.receive(MESSAGE).await;
    assert_eq!(stream.next().await.kind, "message.created");
    let deliveries = format!("GET /api/v1/webhooks/{id}/deliveries");
    wait_until("the event is delivered", async || {
        let listed = ada.send(&deliveries).await.succeeds(200);
        listed["deliveries"][0]["state"] == "delivered"
    })
    .await;
    let secrets = [ada.address.clone(), ada.access.clone(), ada.refresh.clone()];
    let (spans, reason) = tokio::join!(collector.spans_after_stop(&mut service), stream.end());
    assert_eq!(reason, "shutdown");

    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let attempt = named("webhook attempt");
    let of_trace = |span: &&Span| span.trace_id == attempt.trace_id;
    let trace = Trace(spans.iter().filter(of_trace).cloned().collect());
    let job = trace.parent(attempt);
    assert_eq!(job.name, "webhook job");
    assert!(job.parent_span_id.is_empty());
    let request = trace.named("webhook request");
    assert_eq!(trace.parent(request), attempt);
    let event_stream = named("event stream");
    for (span, key, value) in [
        (job, "latchmail.webhook.id", id),
        (attempt, "latchmail.event.type", "message.created"),
        (attempt, "latchmail.attempt", "1"),
        (request, "latchmail.outcome", "delivered"),
        (request, "http.response.status_code", "204"),
        (event_stream, "latchmail.outcome", "shutdown"),
        (event_stream, "latchmail.events", "1"),
        (named("watch mailbox"), "latchmail.outcome", "opened"),
    ] {
        assert_eq!(attribute(span, key).as_deref(), Some(value), "{span:#?}");
    }
    // The stream is in the trace of the request that opened it.
    let of_stream = |span: &&Span| span.trace_id == event_stream.trace_id;
    let mut of_stream = spans.iter().filter(of_stream);
    assert!(of_stream.any(|span| span.name == "GET /api/v1/mail/events"));
    assert_without_personal_data(&spans, &secrets);
}

#[tokio::test]
async fn only_a_trusted_proxy_continues_its_trace_and_an_unsampled_one_is_not_sent() {
    let log = Log::capture();
    let collector = Collector::start().await;
    let settings = format!(
        "{}\nhttp.trusted_proxies = ['127.0.0.1']",
        collector.setting()
    );
    let mut behind_proxy = Service::with(&settings).await;
    let unsampled = send_traced(&behind_proxy, HEALTH, &traceparent("00")).await;
    let sampled = send_traced(&behind_proxy, HEALTH, &traceparent("01")).await;
    let spans = collector.spans_after_stop(&mut behind_proxy).await;
    let of_proxy = spans
        .iter()
        .filter(|span| hexadecimal(&span.trace_id) == TRACE);
    let of_proxy: Vec<_> = of_proxy.collect();
    assert_eq!(of_proxy.len(), 1, "{spans:#?}");
    assert_eq!(hexadecimal(&of_proxy[0].parent_span_id), PARENT);
    let id = attribute(of_proxy[0], "latchmail.request_id").unwrap();
    assert_eq!(id, request_id(&sampled));
    for response in [&sampled, &unsampled] {
        assert_eq!(logged_trace(&log, &request_id(response)), TRACE);
    }

    let mut direct = Service::with(&collector.setting()).await;
    let response = send_traced(&direct, HEALTH, &traceparent("01")).await;
    let id = request_id(&response);
    let spans = collector.spans_after_stop(&mut direct).await;
    let trace = Trace::of_request(&spans, &id);
    assert_ne!(trace.id(), TRACE);
    assert!(trace.root().parent_span_id.is_empty());
    assert_eq!(logged_trace(&log, &id), trace.id());
}

#[tokio::test]
async fn a_request_of_a_module_continues_the_trace_and_the_module_cannot_set_it() {
    let collector = Collector::start().await;
    let hosts = format!(
        "modules.keeper.grants = ['store', 'http-client']\nmodules.keeper.hosts = ['http://{}']",
        collector.address
    );
    let keeper = module("keeper", "fixture_keeper.wasm", &hosts);
    let settings = format!("{}\n{keeper}", collector.setting());
    let mut service = Service::with(&settings).await;
    let mut request = json!({ "method": "GET", "url": format!("http://{}/", collector.address) });
    let response = service.post("/keeper/public/fetch", &request).await;
    let id = request_id(&response);
    let received = response.succeeds(200)["ok"]["body"]
        .as_str()
        .unwrap()
        .to_owned();
    for name in ["traceparent", "TraceState"] {
        request["headers"] = json!([[name, "a=b"]]);
        let response = service.post("/keeper/public/fetch", &request).await;
        let failed = response.succeeds(200)["failed"].to_string();
        assert!(failed.contains("Error::Invalid("), "{failed}");
    }
    let spans = collector.spans_after_stop(&mut service).await;
    let trace = Trace::of_request(&spans, &id);
    let call = trace.named("host call http-client.send");
    let expected = format!("00-{}-{}-01", trace.id(), hexadecimal(&call.span_id));
    assert_eq!(received, expected);

    let without_collector = Service::with(&keeper).await;
    request["headers"] = json!([]);
    let response = without_collector
        .post("/keeper/public/fetch", &request)
        .await;
    let received = response.succeeds(200)["ok"]["body"].to_string();
    assert!(received.ends_with("-00\""), "{received}");
}

#[tokio::test]
async fn requests_continue_without_the_collector_and_one_warning_is_logged() {
    const WARNING: &str = "the collector of traces does not accept spans";
    let log = Log::capture();
    let endpoint = format!("telemetry.otlp_endpoint = 'http://{}'", free_address());
    let mut service = Service::with(&endpoint).await;
    service.send(HEALTH).await.succeeds(200);
    wait_until("the failure is logged", async || {
        !log.lines_with(WARNING).is_empty()
    })
    .await;
    service.send(HEALTH).await.succeeds(200);
    service.stop().await;
    let warnings = log.lines_with(WARNING);
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("WARN"), "{warnings:#?}");
}

// The collector is a stub, because a real one does not fail on request.
#[tokio::test]
async fn spans_are_sent_again_after_an_outage_and_refused_spans_are_counted() {
    const FAILED: &str = "the collector of traces does not accept spans";
    const RECOVERED: &str = "the collector of traces accepts spans again";
    let log = Log::capture();
    let logged = async |text: &str, count: usize| {
        let is_logged = async || log.lines_with(text).len() == count;
        wait_until("the collector's state is logged", is_logged).await;
    };
    let collector = Collector::start().await;
    collector.answer(Answer::Unavailable);
    let mut service = Service::with(&format!("{METRICS}\n{}", collector.setting())).await;
    let during = service.send(HEALTH).await;
    logged(FAILED, 1).await;
    collector.answer(Answer::Accept);
    let after = service.send(HEALTH).await;
    logged(RECOVERED, 1).await;
    let lost = async || {
        let metrics = service.scrape().await;
        metrics.sum("latchmail_trace_spans_lost_total", &[])
    };
    let before = lost().await;
    collector.answer(Answer::Refused(2));
    service.send(HEALTH).await.succeeds(200);
    let is_counted = async || (lost().await - before - 2.0).abs() < 0.5;
    wait_until("the refused spans are counted", is_counted).await;
    logged("it refused 2 spans", 1).await;

    let spans = collector.spans_after_stop(&mut service).await;
    for response in [during, after] {
        let id = Some(request_id(&response));
        let of_request = |span: &&_| attribute(span, "latchmail.request_id") == id;
        assert_eq!(spans.iter().filter(of_request).count(), 1, "{spans:#?}");
    }
}

#[tokio::test]
async fn each_fault_is_in_the_metrics_in_its_trace_and_in_the_log() {
    let log = Log::capture();
    let collector = Collector::start().await;
    let hostile = module(
        "hostile",
        "fixture_hostile.wasm",
        "modules.hostile.grants = ['caller']",
    );
    let settings = format!(
        "{METRICS}\n{}\nlimits.public = 3\n{hostile}",
        collector.setting()
    );
    let setup = Setup::default().with_own_mail().with(&settings);
    let mut service = setup.start().await;
    let access = service.person("ada").await.access;
    let before = service.scrape().await;

    let trapped = service.send("GET /hostile/trap").await;
    let mut limited = service.send(AVAILABLE).await;
    for _ in 0..3 {
        limited = service.send(AVAILABLE).await;
    }
    service.stack().stop_imap().await.unwrap();
    let outage = Response::of(service.request(INBOX).bearer_auth(&access)).await;
    let after = service.scrape().await;
    let spans = collector.spans_after_stop(&mut service).await;

    for (response, status, metric, labels, part) in [
        (
            trapped,
            500,
            "latchmail_sandbox_calls_total",
            ["module=\"hostile\"", "outcome=\"trapped\""],
            Some(("sandbox hostile", "trapped")),
        ),
        (
            outage,
            503,
            "latchmail_imap_commands_total",
            ["command=\"CONNECT\"", "outcome=\"failed\""],
            Some(("imap CONNECT", "failed")),
        ),
        (
            limited,
            429,
            "latchmail_rate_limited_total",
            ["area=\"public\"", ""],
            None,
        ),
    ] {
        assert_eq!(response.status, status);
        let increase = after.sum(metric, &labels) - before.sum(metric, &labels);
        assert!(increase >= 1.0, "{metric} {labels:?}");

        let id = request_id(&response);
        let trace = Trace::of_request(&spans, &id);
        let root = trace.root();
        let code = attribute(root, "http.response.status_code");
        assert_eq!(code, Some(status.to_string()));
        assert_eq!(is_error(root), status >= 500);
        if let Some((name, outcome)) = part {
            let span = trace.named(name);
            assert!(is_error(span), "{span:#?}");
            assert_eq!(attribute(span, "error.type").as_deref(), Some(outcome));
        }

        assert_eq!(logged_trace(&log, &id), trace.id());
        let lines = log.lines_with(&trace.id());
        let is_failure = |line: &String| line.contains("ERROR") || line.contains("WARN");
        assert_eq!(lines.iter().any(is_failure), status >= 500, "{lines:#?}");
        let completed = format!("status={status}");
        assert!(
            lines.iter().any(|line| line.contains(&completed)),
            "{lines:#?}"
        );
    }
}
