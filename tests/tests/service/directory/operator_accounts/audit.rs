//! The record of security events, as `latchmail audit` prints it.

use latchmail_tests::Service;
use serde_json::Value;

use super::{run_command, sign_in};

#[tokio::test]
async fn attempts_with_unknown_addresses_do_not_fill_the_audit_log() {
    let service = Service::start().await;
    for n in 0..103 {
        let refused = sign_in(&service, &format!("n{n}@first.test"), "Wrong-Horse-7").await;
        refused.fails(401, "Invalid credentials");
    }
    let output = run_command(&service, "audit --json --limit 1000").await;
    let failed: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["kind"] == "sign_in_failed")
        .collect();
    assert_eq!(failed.len(), 100);
    assert_eq!(failed[99]["address"], "n102@first.test");
    assert_eq!(failed[99]["unlisted"], 3);
}

#[tokio::test]
async fn the_audit_log_names_the_event_the_account_and_the_actor() {
    let service = Service::with_mail().await;
    let (ada, _) = (service.person("ada").await, service.person("bob").await);
    sign_in(&service, "ada@first.test", "Wrong-Horse-7").await;
    ada.sign_in_again().await;
    run_command(&service, "account disable ada@first.test").await;
    let output = run_command(&service, "audit --account Ada@First.Test --json").await;
    let events: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<(&str, &str)> = events
        .iter()
        .map(|event| {
            let word = |member: &str| event[member].as_str().unwrap();
            (word("kind"), word("actor"))
        })
        .collect();
    assert_eq!(
        kinds,
        [
            ("account_created", "ada@first.test"),
            ("sign_in_failed", ""),
            ("signed_in", "ada@first.test"),
            ("account_disabled", "operator"),
        ]
    );
    assert_eq!(events[2]["client"], "127.0.0.1");

    // The log also has the events of the other account, and seven events of the configured modules.
    assert_eq!(run_command(&service, "audit").await.lines().count(), 12);
    let newest = run_command(&service, "audit --limit 1").await;
    assert!(newest.contains("account_disabled"), "{newest}");
    assert_eq!(
        run_command(&service, "audit --since 1h")
            .await
            .lines()
            .count(),
        12
    );
    assert_eq!(run_command(&service, "audit --since 2099-01-01").await, "");
    service
        .operator("audit --since yesterday", "")
        .await
        .fails_mentioning("yesterday");
}
