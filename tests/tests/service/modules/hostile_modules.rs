//! Misbehaving modules: each failure has its own log line and status, and does not affect other
//! requests.

use std::path::{Path, PathBuf};

use latchmail_runtime::modules::CONTRACT;
use latchmail_tests::process::{descriptors, memory};
use latchmail_tests::{Log, Person, Response, Service, fixtures, load_problem, start_error};
use serde_json::json;

const FAILED: &str = "The operation could not be completed";
const LATE: &str = "The operation took too long, please try again in a moment";

/// Returns the configuration of the hostile module with low limits, and further lines of its
/// section.
fn hostile(more: &str) -> String {
    settings(&component(), more)
}

fn component() -> PathBuf {
    fixtures().join("fixture_hostile.wasm")
}

/// Writes a hostile module with orders for `describe`, and returns its file.
fn component_with_orders(folder: &Path, orders: &str) -> PathBuf {
    const ORDERS_MARKER: &[u8] = b"orders of the hostile:";
    let mut bytes = std::fs::read(component()).unwrap();
    let at = bytes
        .windows(ORDERS_MARKER.len())
        .position(|w| w == ORDERS_MARKER);
    let from = at.unwrap() + ORDERS_MARKER.len();
    bytes[from..from + orders.len()].copy_from_slice(orders.as_bytes());
    let ordered = folder.join("hostile.wasm");
    std::fs::write(&ordered, bytes).unwrap();
    ordered
}

fn settings(source: &Path, more: &str) -> String {
    let source = format!("source = '{}'", source.display());
    let mut settings = String::new();
    for line in [
        &source,
        "grants = ['caller']",
        "paths = ['/hostile/']",
        "memory = 8",
        "cpu = 0.2",
        "host_calls = 2000",
        "deadline = 6",
        "concurrency = 4",
        more,
    ] {
        if !line.is_empty() {
            settings.extend(["modules.hostile.", line, "\n"]);
        }
    }
    settings
}

/// The action of a module during a request, the client's status and error, and the operator's log
/// line.
const FAILURES: [(&str, u16, &str, &str); 27] = [
    ("spin", 500, FAILED, "it exceeded its CPU time of 0.2 s"),
    ("call", 500, FAILED, "it exceeded 2000 host calls"),
    ("log", 500, FAILED, "it exceeded 2000 host calls"),
    ("handles", 500, FAILED, "it had more than 1024 open handles"),
    ("poll", 500, FAILED, "it had more than 1024 open handles"),
    ("log-much", 500, FAILED, "it exceeded its CPU time of 0.2 s"),
    ("print", 500, FAILED, "it wrote: xxxx"),
    ("grow", 500, FAILED, "it exceeded its memory of 8 MiB"),
    ("recurse", 500, FAILED, "it exceeded its stack"),
    ("trap", 500, FAILED, "it aborted"),
    ("panic", 500, FAILED, "it was asked to"),
    ("exit", 500, FAILED, "exit"),
    ("exit-1", 500, FAILED, "exit"),
    ("wait", 503, LATE, "passed its deadline"),
    ("much", 500, FAILED, "it exceeded its memory of 8 MiB"),
    ("header-break", 500, FAILED, "value of header \"x-a\""),
    ("header-name", 500, FAILED, "header name \"x a\""),
    ("headers", 500, FAILED, "10000 headers"),
    (
        "page",
        500,
        FAILED,
        "content type \"text/html\" needs `active_content = true`",
    ),
    (
        "script",
        500,
        FAILED,
        "content type \"text/javascript\" needs `active_content = true`",
    ),
    ("status-99", 500, FAILED, "status 99"),
    ("status-101", 500, FAILED, "status 101"),
    ("status-600", 500, FAILED, "status 600"),
    ("unknown-blob", 500, FAILED, "unknown handle index 4242"),
    ("blob-twice", 500, FAILED, "unknown handle index"),
    ("blob-read-after", 500, FAILED, "unknown handle index"),
    (
        "blob-insert-far",
        500,
        FAILED,
        "a text at offset 3, which is not between 0 and 2",
    ),
];

/// Makes the module perform an action. Actions that begin with `blob` need a blob.
async fn trigger(service: &Service, what: &str) -> Response {
    let method = if what.starts_with("blob") {
        "POST"
    } else {
        "GET"
    };
    let request = service.request(&format!("{method} /hostile/{what}"));
    Response::of(request.body(if method == "POST" { "a blob" } else { "" })).await
}

async fn assert_mail_works(person: &Person<'_>) {
    let listing = person
        .send("GET /api/v1/mail/folders/INBOX/messages")
        .await
        .succeeds(200);
    assert_eq!(listing["total"], 0);
}

#[tokio::test]
async fn each_failure_of_a_module_ends_only_its_own_request_and_is_logged() {
    let log = Log::capture();
    let service = Service::with_mail_and(&hostile("")).await;
    let ada = service.person("ada").await;
    for (what, status, text, logged) in FAILURES {
        let (response, ()) = tokio::join!(trigger(&service, what), assert_mail_works(&ada));
        assert_eq!(response.status, status, "{what}: {}", response.json);
        response.fails(status, text);
        assert_eq!(response.header("set-cookie"), None);
        let id = response.header("x-request-id").unwrap();
        let lines = log.lines_with(id);
        assert!(
            lines
                .iter()
                .any(|line| line.contains("module hostile") && line.contains(logged)),
            "{what}: {lines:#?}"
        );
        assert!(
            lines.iter().all(|line| line.len() < 12_000) && lines.len() < 110,
            "{what} fills the log"
        );
        assert_mail_works(&ada).await;
    }
}

#[tokio::test]
async fn a_leaked_blob_and_a_read_past_the_end_are_harmless() {
    let service = Service::with(&hostile("")).await;
    let output = async |what| String::from_utf8(trigger(&service, what).await.body).unwrap();
    assert_eq!(output("blob-leaked").await, "leaked");
    assert_eq!(output("blob-far").await, "Ok(0) true");
}

#[tokio::test]
async fn a_module_inserts_a_text_into_its_response_unless_it_is_not_utf_8() {
    let service = Service::with(&hostile("response = 1")).await;
    let insert = async |text: &[u8]| {
        let request = service.request("POST /hostile/blob-insert");
        Response::of(request.body(text.to_vec())).await
    };
    let text = "\"quoted\"\r\n\u{1}\u{2028}é\\";
    assert_eq!(insert(text.as_bytes()).await.json, json!([text]));
    let invalid = insert(b"\xff").await;
    let message = String::from_utf8(invalid.body).unwrap();
    assert!(message.contains("The text is not UTF-8"), "{message}");
    // A line break has one byte in the text and two bytes in the JSON string. The maximum is 1 MiB.
    let half = "\n".repeat(512 * 1024 - 2);
    assert_eq!(insert(half.as_bytes()).await.json, json!([half]));
    let too_large = "\n".repeat(512 * 1024 - 1);
    insert(too_large.as_bytes()).await.fails(500, FAILED);
}

#[tokio::test]
async fn a_response_above_the_limit_is_not_sent() {
    const MIB: usize = 1024 * 1024;
    let log = Log::capture();
    let with_memory = hostile("response = 1").replace("memory = 8", "memory = 256");
    let service = Service::with(&with_memory).await;
    let logged = |response: &Response, what: &str| {
        let lines = log.lines_with(response.header("x-request-id").unwrap());
        lines.iter().any(|line| line.contains(what))
    };
    let response = trigger(&service, &format!("bytes-{MIB}")).await;
    assert_eq!((response.status, response.body.len()), (200, MIB));
    let response = trigger(&service, &format!("bytes-{}", MIB + 1)).await;
    assert!(logged(
        &response,
        "a body of 1048577 bytes; the maximum is 1048576"
    ));
    response.fails(500, FAILED);
    let response = trigger(&service, "much").await;
    assert!(logged(
        &response,
        "it passed more than 16 MiB to the host in one call"
    ));
    response.fails(500, FAILED);
    trigger(&service, "nothing").await.succeeds(200);
}

#[tokio::test]
async fn the_operator_can_raise_the_limit_of_responses() {
    const LARGE: usize = 30 * 1024 * 1024;
    let larger = hostile("response = 30").replace("memory = 8", "memory = 128");
    let service = Service::with(&larger.replace("cpu = 0.2", "cpu = 5")).await;
    let response = trigger(&service, &format!("bytes-{LARGE}")).await;
    assert_eq!((response.status, response.body.len()), (200, LARGE));
    trigger(&service, &format!("bytes-{}", LARGE + 1))
        .await
        .fails(500, FAILED);
    let refused = start_error(&hostile("response = 65")).await;
    assert!(refused.contains("its response is 65 MiB"), "{refused}");
}

#[tokio::test]
async fn a_panic_in_the_host_ends_one_request_and_not_the_service() {
    let log = Log::capture();
    let service = Service::with_mail_and(&hostile("")).await;
    let ada = service.person("ada").await;
    for _ in 0..10 {
        let (response, ()) = tokio::join!(trigger(&service, "host-panic"), assert_mail_works(&ada));
        assert_eq!(response.status, 500, "{}", response.json);
        assert!(response.json["error"].is_string());
        let id = response.header("x-request-id").unwrap();
        let panicked = |line: &String| line.contains("a capability panicked");
        assert!(log.lines_with(id).iter().any(panicked));
    }
    trigger(&service, "nothing").await.succeeds(200);
}

#[tokio::test]
async fn a_module_that_misbehaves_in_describe_is_not_loaded() {
    for (describe, reason) in [
        ("panic", "it would not say"),
        ("spin", "it exceeded its CPU time of 0.2 s"),
        ("grow", "it exceeded its memory of 8 MiB"),
        ("recurse", "it exceeded its stack"),
        ("wait", "longer than 5 s"),
        ("call", "it exceeded 2000 host calls"),
        ("many routes", "has 4000 routes"),
        (
            "a million routes",
            "it passed more than 16 MiB to the host in one call",
        ),
        ("long", "has a description of 2097"),
        ("deep", "recursion limit"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(&component_with_orders(folder.path(), describe), "");
        if describe == "spin" {
            // A computation of any duration makes no host calls.
            settings = settings.replace("host_calls = 2000", "host_calls = 50");
        }
        if describe == "a million routes" {
            settings = settings.replace("memory = 8", "memory = 256");
            settings = settings.replace("cpu = 0.2", "cpu = 4");
        }
        let sentence = load_problem(&settings).await;
        assert!(
            sentence.starts_with("module `hostile` cannot be loaded: ")
                && sentence.contains(reason)
                && sentence.len() < 6_000,
            "{describe}: {sentence}"
        );
    }
}

#[tokio::test]
async fn an_import_without_a_grant_is_named() {
    let sentence = load_problem(&hostile("").replace("grants = ['caller']", "grants = []")).await;
    assert_eq!(
        sentence,
        format!(
            "module `hostile` cannot be loaded: it imports interfaces that are not granted: latchmail:host/caller@{CONTRACT}"
        )
    );
}

#[tokio::test]
async fn a_route_that_is_already_taken_is_refused_with_both_names() {
    for (path, mentions) in [
        ("/api/v1/mail/folders", ["hostile", "mail"]),
        ("/api/v1/mail/{any}", ["hostile", "mail"]),
        ("/api/v1/mail/messages/{other}", ["hostile", "mail"]),
        ("/api/health", ["hostile", "host"]),
        ("/api/v1/auth/login", ["hostile", "host"]),
        ("/api/v1/auth/{any}", ["hostile", "host"]),
        ("/api/{any}", ["hostile", "host"]),
        ("/{a}/{b}/{c}/{d}", ["hostile", "host"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(&component_with_orders(folder.path(), path), "")
            .replace("paths = ['/hostile/']", "paths = ['/']");
        let sentence = load_problem(&settings).await;
        for mention in mentions {
            assert!(sentence.contains(mention), "{path}: {sentence}");
        }
        assert!(sentence.contains(path), "{path}: {sentence}");
    }
}

#[tokio::test]
async fn misbehaving_modules_leak_no_memory_no_descriptors_and_no_sandboxes() {
    let service =
        Service::with_mail_and(&hostile("").replace("deadline = 6", "deadline = 0.2")).await;
    let ada = service.person("ada").await;
    let everything = async || {
        for (what, ..) in FAILURES {
            trigger(&service, what).await;
        }
        for what in ["blob-leaked", "blob-far", "host-panic"] {
            trigger(&service, what).await;
        }
        assert_mail_works(&ada).await;
    };
    // Allocates what is kept permanently: pages of the pool, connections of the clients, caches.
    everything().await;
    let (open, resident) = (descriptors(), memory());
    for _ in 0..4 {
        everything().await;
    }
    assert_eq!(descriptors(), open);
    // If any kind of request kept its memory (8 MiB of a sandbox, a stack, 16 MiB of passed data),
    // it would do so four times.
    let grown = memory().saturating_sub(resident) / 1024;
    assert!(grown < 24, "{grown} MiB more than before");
    // There are four sandboxes, so a lost one would be missing here.
    let at_once = (0..4).map(|_| trigger(&service, "nothing"));
    for response in futures_util::future::join_all(at_once).await {
        assert_eq!(response.status, 200);
    }
}
