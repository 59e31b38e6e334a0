//! Modules with `reuse`: the state that a sandbox keeps from one request to the next.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use latchmail_tests::{Log, Person, Response, Service, fixtures};
use serde_json::{Value, json};

/// Returns the configuration of the probe with `reuse`, and further lines of its section.
fn probe(more: &[&str]) -> String {
    let source = fixtures().join("fixture_probe.wasm");
    let source = format!("source = '{}'", source.display());
    let mut settings = String::new();
    let usual = [
        &source,
        "grants = ['caller', 'mailbox']",
        "paths = ['/probe/']",
        "memory = 16",
        "reuse = true",
    ];
    for line in usual.iter().chain(more) {
        settings.extend(["modules.probe.", line, "\n"]);
    }
    settings
}

async fn request(service: &Service, what: &str) -> Response {
    service.send(&format!("GET /probe/do/{what}")).await
}

/// Returns the number of requests that the sandbox had served before this one.
async fn requests_before(service: &Service, what: &str) -> u32 {
    count(&request(service, what).await)
}

fn count(response: &Response) -> u32 {
    assert_eq!(response.status, 200, "{}", response.json);
    std::str::from_utf8(&response.body)
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn a_reusable_sandbox_serves_the_next_request() {
    let service = Service::with(&probe(&[])).await;
    for served in 0..5 {
        assert_eq!(requests_before(&service, "remember").await, served);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_without_reuse_serves_one_request() {
    for concurrency in ["concurrency = 1", "concurrency = 3"] {
        let settings = probe(&[concurrency]).replace("reuse = true", "reuse = false");
        let service = Service::with(&settings).await;
        // Sequential requests find a prepared sandbox; most concurrent requests find none.
        for _ in 0..5 {
            assert_eq!(requests_before(&service, "remember").await, 0);
            let responses = join_all((0..6).map(|_| requests_before(&service, "remember"))).await;
            assert_eq!(responses, [0; 6]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_never_serves_two_requests_at_once() {
    let service = Service::with(&probe(&["concurrency = 3"])).await;
    let responses = join_all((0..60).map(|_| requests_before(&service, "remember"))).await;
    let mut times = BTreeMap::<u32, usize>::new();
    for served in responses {
        *times.entry(served).or_default() += 1;
    }
    // Each of at most three sandboxes counts from 0 without a gap: two concurrent requests in one
    // would read the same number.
    let mut sandboxes = 3;
    for (served, (number, times)) in times.into_iter().enumerate() {
        assert_eq!(number as usize, served);
        assert!(times <= sandboxes, "{number}: {times} times");
        sandboxes = times;
    }
}

#[tokio::test]
async fn a_sandbox_that_failed_is_not_used_again() {
    let settings = probe(&["concurrency = 1", "cpu = 0.5"]);
    let service = Service::with(&settings).await;
    for (what, status) in [("trap", 500), ("spin", 500), ("grow", 500)] {
        requests_before(&service, "remember").await;
        assert_ne!(
            requests_before(&service, "remember").await,
            0,
            "before {what}"
        );
        assert_eq!(request(&service, what).await.status, status, "{what}");
        assert_eq!(
            requests_before(&service, "remember").await,
            0,
            "after {what}"
        );
    }
}

#[tokio::test]
async fn a_request_that_exceeds_its_deadline_ends_its_sandbox() {
    let settings = probe(&["concurrency = 1", "cpu = 60", "deadline = 2"]);
    let service = Service::with(&settings).await;
    assert_eq!(requests_before(&service, "remember").await, 0);
    assert_eq!(request(&service, "spin").await.status, 503);
    assert_eq!(requests_before(&service, "remember").await, 0);
}

#[tokio::test]
async fn every_request_has_its_own_cpu_time() {
    let service = Service::with(&probe(&["concurrency = 1", "cpu = 0.5"])).await;
    for served in 0..10 {
        assert_eq!(requests_before(&service, "work").await, served);
    }
}

#[tokio::test]
async fn a_sandbox_with_open_resources_is_not_used_again() {
    let service = Service::with(&probe(&["concurrency = 1"])).await;
    assert_eq!(requests_before(&service, "remember").await, 0);
    let request = service.request("POST /probe/keep").body("a blob");
    assert_eq!(count(&Response::of(request).await), 1);
    assert_eq!(requests_before(&service, "remember").await, 0);
    // A sandbox that returned its blob is reused.
    let request = service.request("POST /probe/echo").body("a blob");
    assert_eq!(Response::of(request).await.body, b"a blob");
    assert_eq!(requests_before(&service, "remember").await, 1);
}

#[tokio::test]
async fn a_sandbox_that_grew_is_replaced_before_it_is_full() {
    let service = Service::with(&probe(&["concurrency = 1"])).await;
    let mut longest = 0;
    for _ in 0..40 {
        longest = longest.max(requests_before(&service, "hold").await);
    }
    // Each request leaks 1 MiB of 16, and none fails.
    assert!((4..12).contains(&longest), "{longest}");
}

#[tokio::test]
async fn a_sandbox_that_logs_much_is_replaced_and_lines_belong_to_their_request() {
    let log = Log::capture();
    let service = Service::with(&probe(&["concurrency = 1"])).await;
    let mut longest = 0;
    for _ in 0..12 {
        let response = request(&service, "say").await;
        longest = longest.max(count(&response));
        let id = response.header("x-request-id").unwrap();
        let lines = log.lines_with(id);
        let output = lines.iter().filter(|l| l.contains("asked to say")).count();
        assert_eq!(output, 1, "{lines:#?}");
    }
    assert!((1..6).contains(&longest), "{longest}");
}

#[tokio::test]
async fn a_reused_sandbox_never_sees_the_previous_caller() {
    let service =
        Service::with("modules.aliases.reuse = true\nmodules.aliases.concurrency = 1").await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let aliases = async |person: &Person<'_>| {
        let list = person.send("GET /api/v1/aliases").await.succeeds(200);
        let of = |alias: &Value| alias["address"].as_str().unwrap().to_owned();
        let list = list["aliases"].as_array().unwrap().iter().map(of);
        list.collect::<Vec<_>>()
    };
    for (person, name) in [(&ada, "of-ada"), (&bob, "of-bob")] {
        let body = json!({ "domain": "first.test", "name": name });
        person.post("/api/v1/aliases", &body).await.succeeds(201);
    }
    for _ in 0..3 {
        assert_eq!(aliases(&ada).await, ["of-ada@first.test"]);
        assert_eq!(aliases(&bob).await, ["of-bob@first.test"]);
    }
    // The rights of one caller are not those of the next.
    let token = bob.token(&["aliases:read"]).await;
    let reader = Person {
        access: token["token"].as_str().unwrap().into(),
        ..bob.clone()
    };
    for _ in 0..3 {
        let body = json!({ "domain": "first.test" });
        ada.post("/api/v1/aliases", &body).await.succeeds(201);
        reader.post("/api/v1/aliases", &body).await.fails(
            403,
            "This credential is missing the \"aliases:write\" scope",
        );
        assert_eq!(aliases(&reader).await, ["of-bob@first.test"]);
    }
}
