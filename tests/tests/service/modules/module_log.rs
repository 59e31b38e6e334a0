//! `latchmail module log`: the log of a request, found by its id.

use latchmail_tests::administrator::Administrator;
use latchmail_tests::{Response, Service, Setup, fixtures};
use serde_json::Value;

fn settings() -> String {
    let source = fixtures().join("fixture_probe.wasm");
    let section = [
        &format!("source = '{}'", source.display()),
        "grants = ['caller', 'mailbox']",
        "paths = ['/probe/']",
    ];
    section
        .map(|line| format!("modules.probe.{line}\n"))
        .concat()
}

async fn probe() -> Service {
    Service::with(&settings()).await
}

/// Calls the probe and returns the id of the request.
async fn call(service: &Service, what: &str, status: u16) -> String {
    let response: Response = service.send(&format!("GET /probe/do/{what}")).await;
    assert_eq!(response.status, status, "{what}");
    response.header("x-request-id").unwrap().to_owned()
}

/// Returns the entries that `--json` prints, one object per line.
async fn entries(service: &Service, arguments: &str) -> Vec<Value> {
    let verb = format!("module log probe --json{arguments}");
    let printed = service.operator(&verb, "").await.succeeds();
    let entry = |line| serde_json::from_str(line).unwrap();
    printed.lines().map(entry).collect()
}

#[tokio::test]
async fn a_trap_is_found_by_its_request_id() {
    let service = probe().await;
    let trapped = call(&service, "trap", 500).await;
    let output = call(&service, "say", 200).await;
    call(&service, "log", 200).await;

    let found = entries(&service, &format!(" --request {trapped}")).await;
    assert_eq!(found.len(), 1, "{found:#?}");
    let message = found[0]["message"].as_str().unwrap();
    assert!(message.contains("module probe trapped"), "{message}");
    assert!(message.contains("the probe was asked to trap"), "{message}");
    assert_eq!(found[0]["level"], "error");
    assert_eq!(found[0]["source"], "host");
    assert_eq!(found[0]["request"], trapped);
    let backtrace = found[0]["backtrace"].as_array().unwrap();
    let in_the_module = |frame: &Value| frame.as_str().unwrap().contains("fixture_probe");
    assert!(backtrace.iter().any(in_the_module), "{backtrace:#?}");

    let found = entries(&service, &format!(" --request {output}")).await;
    assert_eq!(found[0]["source"], "output");
    let message = found[0]["message"].as_str().unwrap();
    assert!(message.starts_with("the probe was asked to say"));

    let verb = format!("module log probe --request {trapped}");
    let printed = service.operator(&verb, "").await.succeeds();
    let first = printed.lines().next().unwrap();
    assert!(
        first.contains(&trapped) && first.contains("error"),
        "{first}"
    );
    assert!(printed.lines().count() > 1, "no backtrace: {printed}");
    assert!(!printed.contains(&output), "{printed}");
}

#[tokio::test]
async fn log_lines_of_a_module_are_kept_in_order_up_to_the_limits() {
    let service = probe().await;
    let first = call(&service, "log", 200).await;
    let found = entries(&service, &format!(" --request {first}")).await;
    // The host writes 100 lines of a request and counts the others.
    let messages: Vec<&str> = found
        .iter()
        .map(|entry| entry["message"].as_str().unwrap())
        .collect();
    assert_eq!(messages.len(), 101, "{messages:?}");
    assert_eq!((messages[0], messages[99]), ("line 0", "line 99"));
    assert_eq!(
        messages[100],
        "dropped 100 log lines: a request can write at most 100"
    );
    assert!(found.iter().all(|entry| entry["source"] == "log"));
    for _ in 0..10 {
        call(&service, "log", 200).await;
    }
    assert_eq!(entries(&service, "").await.len(), 1000);
    let found = entries(&service, &format!(" --request {first}")).await;
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test]
async fn an_administrator_reads_the_log_of_a_module_and_others_do_not() {
    let setup = Setup::default().with(&settings()).with_mail();
    let service = setup.start().await;
    let trapped = call(&service, "trap", 500).await;
    let ada = service.person("ada").await;
    let route = format!("GET /api/v1/admin/modules/probe/log?request={trapped}");
    ada.send(&route)
        .await
        .fails(403, "This endpoint is only available to administrators");
    let root = Administrator::create(&service, "root@first.test").await;
    let root = root.sign_in_to_api().await;
    let log = root.send(&route).await.succeeds(200);
    assert_eq!(log["entries"].as_array().unwrap().len(), 1, "{log}");
}

#[tokio::test]
async fn a_log_needs_a_known_module_and_a_running_service() {
    let mut service = probe().await;
    let unknown = service.operator("module log nothing", "").await;
    unknown.fails_mentioning("There is no module `nothing`");
    service
        .operator("module log No/thing", "")
        .await
        .fails_mentioning("not a valid module name");
    let none = service.operator("module log probe --request x&y", "").await;
    assert_eq!(
        (none.status, none.stdout.as_str(), none.stderr.as_str()),
        (0, "", "no entries\n")
    );
    call(&service, "trap", 500).await;
    // A new version keeps the log, a new service does not.
    service.operator("module enable probe", "").await.succeeds();
    assert_eq!(entries(&service, "").await.len(), 1);
    service.restart().await;
    assert_eq!(entries(&service, "").await.len(), 0);
    service.stop().await;
    service
        .operator("module log probe", "")
        .await
        .fails_mentioning("no service listens on");
}
