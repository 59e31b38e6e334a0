//! The metrics at `metrics.listen`: their list, and the events that they count.
//!
//! The metrics are of the process, so tests that run at the same time count too. These tests assert
//! only that a metric increased.

use std::collections::BTreeMap;
use std::path::Path;

use latchmail_core::clock::Clock;
use latchmail_tests::administrator::Administrator;
use latchmail_tests::tls::CertificateFolder;
use latchmail_tests::{
    Log, METRICS, PASSWORD, Person, Redis, Response, Scrape, Setup, fixtures, wait_until,
};
use serde_json::json;

use crate::modules::handlers::{READ_AND_WRITE, actor, section, switch};

const INBOX: &str = "GET /api/v1/mail/folders/INBOX/messages";
const AVAILABLE: &str = "GET /api/v1/auth/username-available?username=ada";

/// Returns the settings of a module that traps on request.
pub(super) fn hostile() -> String {
    let file = fixtures().join("fixture_hostile.wasm");
    format!(
        "modules.hostile.source = '{}'\nmodules.hostile.grants = ['caller']\nmodules.hostile.paths = ['/hostile/']\nmodules.hostile.deadline = 1",
        file.display()
    )
}

/// Returns the families in the tables of `docs/metrics.md`: the kind and the labels of each.
fn documented() -> BTreeMap<String, (String, Vec<String>)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let text = std::fs::read_to_string(file).unwrap();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| `latchmail_"));
    rows.map(|row| {
        let cells: Vec<_> = row
            .split('|')
            .map(|cell| cell.trim().replace('`', ""))
            .collect();
        let labels = cells[3].split(", ").filter(|label| !label.is_empty());
        let labels = labels.map(ToOwned::to_owned).collect();
        (cells[1].clone(), (cells[2].clone(), labels))
    })
    .collect()
}

/// Asserts that the sum of the series of `name` with these labels has increased.
#[track_caller]
fn assert_increased(before: &Scrape, after: &Scrape, name: &str, labels: &[&str]) {
    let (before, now) = (before.sum(name, labels), after.sum(name, labels));
    assert!(now > before, "{name} {labels:?}: {before} and then {now}");
}

pub(super) async fn use_mail(ada: &Person<'_>) {
    ada.receive("From: a@outside.test\nTo: x@first.test\nSubject: one\n\nbody\n")
        .await;
    ada.send(INBOX).await.succeeds(200);
    let mail =
        json!({ "from": ada.address, "to": [ada.address], "subject": "hello", "text": "hello" });
    ada.post("/api/v1/mail/send", &mail).await.succeeds(200);
}

#[tokio::test]
async fn the_exported_metrics_are_exactly_the_documented_ones() {
    let setup = Setup::default().with_mail().with(METRICS);
    let setup = setup.with(&section("actor", READ_AND_WRITE));
    let service = setup.start().await;
    service.install(&[actor("none").component()]).await;
    let ada = service.person("ada").await;
    switch(&ada, true).await;
    use_mail(&ada).await;
    wait_until("a module was called for an event", async || {
        let scrape = service.scrape().await;
        let names = ["latchmail_handler_calls_total", "latchmail_handlers_paused"];
        names.iter().all(|name| !scrape.labels(name).is_empty())
    })
    .await;
    let scrape = service.scrape().await;
    let exported = scrape.families.iter().map(|(name, kind)| {
        let labels = scrape.labels(name).into_iter().collect();
        (name.clone(), (kind.clone(), labels))
    });
    let exported: BTreeMap<_, (_, Vec<String>)> = exported.collect();
    let sorted = documented().into_iter().map(|(name, (kind, mut labels))| {
        labels.sort();
        (name, (kind, labels))
    });
    assert_eq!(exported, sorted.collect());
}

#[tokio::test]
async fn a_request_for_mail_is_counted_in_each_part_of_the_service() {
    let service = Setup::default().with_mail().with(METRICS).start().await;
    let before = service.scrape().await;
    let ada = service.person("ada").await;
    use_mail(&ada.sign_in_again().await).await;
    let after = service.scrape().await;
    let module = "module=\"mail\"";
    for (name, labels) in [
        (
            "latchmail_http_requests_total",
            ["route=\"/api/v1/mail/send\"", "status=\"200\""],
        ),
        (
            "latchmail_http_request_duration_seconds_count",
            ["method=\"GET\"", "route="],
        ),
        ("latchmail_sandbox_calls_total", [module, "outcome=\"ok\""]),
        (
            "latchmail_sandbox_call_duration_seconds_count",
            [module, ""],
        ),
        ("latchmail_sandbox_cpu_seconds_total", [module, ""]),
        ("latchmail_host_calls_total", [module, ""]),
        (
            "latchmail_imap_commands_total",
            ["command=\"EXAMINE\"", "outcome=\"ok\""],
        ),
        (
            "latchmail_imap_command_duration_seconds_count",
            ["command=\"CONNECT\"", ""],
        ),
        ("latchmail_imap_pool_wait_seconds_count", ["", ""]),
        ("latchmail_submissions_total", ["outcome=\"sent\"", ""]),
        ("latchmail_submission_duration_seconds_count", ["", ""]),
        (
            "latchmail_cache_lookups_total",
            ["area=\"summaries\"", "outcome=\"miss\""],
        ),
        ("latchmail_sign_ins_total", ["outcome=\"success\"", ""]),
    ] {
        assert_increased(&before, &after, name, &labels);
    }
    for name in [
        "database_connections_open",
        "imap_connections_open",
        "sandbox_memory_bytes",
        "http_connections",
        "hosts",
    ] {
        assert!(after.sum(&format!("latchmail_{name}"), &[]) > 0.0, "{name}");
    }
    for name in [
        "latchmail_ready",
        "latchmail_imap_up",
        "latchmail_database_up",
    ] {
        assert_eq!(after.gauge(name), 1, "{name}");
    }
    assert_eq!(after.gauge("latchmail_imap_connections_in_use"), 0);
}

#[tokio::test]
async fn clients_cannot_create_series() {
    let service = Setup::default().with(METRICS).start().await;
    let requests = "latchmail_http_requests_total";
    let before = service.scrape().await;
    for line in [
        "GET /no/such/route",
        "BREW /api/health",
        "GET /api/v1/mail/messages/12345",
    ] {
        service.send(line).await;
    }
    let after = service.scrape().await;
    assert_increased(
        &before,
        &after,
        requests,
        &["route=\"-\"", "status=\"404\""],
    );
    assert_increased(
        &before,
        &after,
        requests,
        &["method=\"other\"", "status=\"405\""],
    );
    assert_increased(&before, &after, requests, &["status=\"401\""]);
    for chosen in ["such", "BREW", "12345"] {
        let series = after.samples.keys().find(|series| series.contains(chosen));
        assert_eq!(series, None);
    }
}

#[tokio::test]
async fn the_listener_serves_only_metrics_and_no_other_listener_serves_them() {
    let service = Setup::default().with(METRICS).start().await;
    assert_eq!(service.send("GET /metrics").await.status, 404);
    for (line, status) in [
        ("GET /", 404),
        ("GET /api/health", 404),
        ("GET /api/openapi.json", 404),
        ("POST /metrics", 405),
    ] {
        assert_eq!(service.send_to_metrics(line).await.status, status, "{line}");
    }
}

#[tokio::test]
async fn scrapes_are_neither_counted_nor_logged() {
    let log = Log::capture();
    let service = Setup::default().with(METRICS).start().await;
    service.scrape().await;
    let scrape = service.scrape().await;
    let counted = scrape.sum("latchmail_http_requests_total", &["route=\"/metrics\""]);
    assert!(counted < 1.0, "{counted}");
    assert_eq!(log.lines_with("request completed"), [] as [String; 0]);
}

#[tokio::test]
async fn refused_requests_are_counted_by_rate_limit() {
    let settings = format!("{METRICS}\nlimits.public = 2\nlimits.sign_in_address = 2");
    let service = Setup::default().with_mail().with(&settings).start().await;
    let ada = service.person("ada").await;
    let before = service.scrape().await;
    for _ in 0..3 {
        service.send(AVAILABLE).await;
        let body = json!({ "email": ada.address, "password": "wrong password 1" });
        Response::of(service.request("POST /api/v1/auth/login").json(&body)).await;
    }
    let after = service.scrape().await;
    for (name, label) in [
        ("latchmail_rate_limited_total", "area=\"public\""),
        ("latchmail_rate_limited_total", "area=\"sign_in_address\""),
        ("latchmail_http_requests_total", "status=\"429\""),
        ("latchmail_sign_ins_total", "outcome=\"wrong_password\""),
    ] {
        assert_increased(&before, &after, name, &[label]);
    }
}

#[tokio::test]
async fn sign_ins_are_counted_by_outcome() {
    let settings = format!("{METRICS}\nadmin.listen = '127.0.0.1:0'");
    let service = Setup::default().with_mail().with(&settings).start().await;
    let ada = Administrator::create(&service, "ada@first.test").await;
    let disabled = "bob@first.test";
    service.create_account(disabled).await;
    let verb = format!("account disable {disabled}");
    service.operator(&verb, "").await.succeeds();
    let before = service.scrape().await;
    let code = ada.code();
    for (address, password, code) in [
        ("nobody@first.test", PASSWORD, None),
        (disabled, PASSWORD, None),
        (&ada.address, "wrong password 1", None),
        (&ada.address, PASSWORD, None),
        (&ada.address, PASSWORD, Some("000000")),
        (&ada.address, PASSWORD, Some(code.as_str())),
        // A code is valid once.
        (&ada.address, PASSWORD, Some(code.as_str())),
    ] {
        let mut body = json!({ "email": address, "password": password });
        if let Some(code) = code {
            body["code"] = json!(code);
        }
        Response::of(service.request("POST /api/v1/auth/login").json(&body)).await;
    }
    let after = service.scrape().await;
    for (outcome, count) in [
        ("unknown_account", 1.0),
        ("account_disabled", 1.0),
        ("wrong_password", 1.0),
        ("code_missing", 1.0),
        ("wrong_code", 2.0),
        ("success", 1.0),
    ] {
        let label = format!("outcome=\"{outcome}\"");
        let count_of = |scrape: &Scrape| scrape.sum("latchmail_sign_ins_total", &[&label]);
        assert!(count_of(&after) - count_of(&before) >= count, "{outcome}");
    }
}

#[tokio::test]
async fn the_expiry_of_the_certificate_is_visible() {
    let folder = tempfile::tempdir().unwrap();
    let files = CertificateFolder::create(folder.path());
    let settings = format!("base_url = ''\n{}{METRICS}", files.settings());
    let service = Setup::default().with(&settings).start().await;
    let expiry = service
        .scrape()
        .await
        .sum("latchmail_certificate_expiry_timestamp_seconds", &[]);
    let days =
        (expiry - f64::from(u32::try_from(Clock::system().now().seconds()).unwrap())) / 86_400.0;
    assert!((88.0..=90.0).contains(&days), "{days} days");
}

#[tokio::test]
async fn failures_of_a_module_are_counted_by_version() {
    let settings = format!("{METRICS}\n{}", hostile());
    let service = Setup::default().with(&settings).start().await;
    let before = service.scrape().await;
    for what in ["trap", "wait", "status-99", "nothing"] {
        service.send(&format!("GET /hostile/{what}")).await;
    }
    let after = service.scrape().await;
    for outcome in ["trapped", "deadline", "invalid_response", "ok"] {
        let labels = [
            "module=\"hostile\"",
            "version=\"",
            &format!("outcome=\"{outcome}\""),
        ];
        assert_increased(&before, &after, "latchmail_sandbox_calls_total", &labels);
    }
    let labels = ["route=\"/hostile/{what}\"", "status=\"500\""];
    assert_increased(&before, &after, "latchmail_http_requests_total", &labels);
}

#[tokio::test]
async fn an_outage_of_the_mail_server_is_visible() {
    let mut service = Setup::default().with_own_mail().with(METRICS).start().await;
    let access = service.person("ada").await.access;
    service.stack().stop_imap().await.unwrap();
    let before = service.scrape().await;
    let response = Response::of(service.request(INBOX).bearer_auth(&access)).await;
    assert_eq!(response.status, 503);
    let after = service.scrape().await;
    let labels = ["command=\"CONNECT\"", "outcome=\"failed\""];
    assert_increased(&before, &after, "latchmail_imap_commands_total", &labels);
    assert_increased(
        &before,
        &after,
        "latchmail_http_requests_total",
        &["status=\"503\""],
    );
    assert_eq!(after.gauge("latchmail_imap_up"), 0);
    assert_eq!(after.gauge("latchmail_ready"), 0);
    assert_eq!(after.gauge("latchmail_database_up"), 1);
    service.stack().start_imap().await.unwrap();
    wait_until("the metrics show the mail server", async || {
        service.scrape().await.gauge("latchmail_ready") == 1
    })
    .await;
}

#[tokio::test]
async fn an_outage_of_the_shared_rate_limits_is_visible() {
    let mut redis = Redis::start().await;
    let settings = format!("{METRICS}\nredis.url = '{}'", redis.url());
    let service = Setup::default().with(&settings).start().await;
    let unavailable = async || {
        service.send(AVAILABLE).await;
        service
            .scrape()
            .await
            .gauge("latchmail_shared_limits_unavailable")
    };
    assert_eq!(unavailable().await, 0);
    redis.stop();
    wait_until("the metrics show the outage", async || {
        unavailable().await == 1
    })
    .await;
    redis.start_again().await;
    wait_until("the metrics show Redis again", async || {
        unavailable().await == 0
    })
    .await;
}
