//! Events: rights, order, the owner's and the operator's switches, and several hosts.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchmail_tests::{METRICS, Setup, wait_until};
use serde_json::{Value, json};

use super::{
    READ, READ_AND_WRITE, advance, calls, command, deliver, deliver_in_order, log, start,
    start_with, start_with_clock, state, switch, wait_for_log,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_module_acts_only_for_owners_who_enabled_it_and_from_then_on() {
    let service = start_with(Setup::default(), READ_AND_WRITE, "tick=60").await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    deliver_in_order(&ada, "before").await;
    let listed = state(&ada).await;
    assert_eq!(
        listed["events"],
        json!([{ "types": ["message.created"], "folderRole": "\\Inbox" }])
    );
    assert_eq!(
        listed["timers"],
        json!([{ "name": "tick", "every": 60, "cron": null }])
    );
    assert_eq!(listed["scopes"], json!(["mail:read", "mail:write"]));
    assert_eq!(
        (&listed["enabled"], &listed["paused"]),
        (&json!(false), &json!(false))
    );

    assert_eq!(switch(&ada, true).await["enabled"], true);
    for person in [&ada, &bob] {
        deliver_in_order(person, "after").await;
    }
    wait_for_log(&ada, &["after"]).await;
    let expected = json!({
        "kind": "session", "address": ada.address, "isHandler": true,
        "scopes": ["mail:read", "mail:write"],
    });
    assert_eq!(calls(&ada).await[0]["caller"], expected);
    assert!(log(&bob).await.is_empty());
    let audit = service.operator("audit", "").await.succeeds();
    assert!(audit.contains("module_handlers_enabled"));
}

#[tokio::test]
async fn only_a_session_switches_modules() {
    let service = start().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read", "mail:write"]).await["token"].clone();
    let token = token.as_str().unwrap();
    let listed = service.with_bearer("GET /api/v1/profile/modules", token);
    assert_eq!(listed.await.status, 403);
    let missing = "PUT /api/v1/profile/modules/missing";
    let missing = ada.send_json(missing, &json!({ "enabled": true })).await;
    missing.fails(404, "Module not found");
    // A module without handlers cannot act.
    let mail = "PUT /api/v1/profile/modules/mail";
    let mail = ada.send_json(mail, &json!({ "enabled": true })).await;
    mail.fails(404, "Module not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_is_filed_once() {
    let service = start().await;
    let ada = service.person("ada").await;
    let work = json!({ "path": "Work" });
    ada.post("/api/v1/mail/folders", &work).await.succeeds(201);
    switch(&ada, true).await;
    for _ in 0..10 {
        deliver(&ada, "move Work").await;
    }
    wait_until("all messages are filed", async || {
        ada.total("Work").await == 10 && ada.total("INBOX").await == 0
    })
    .await;
    assert_eq!(log(&ada).await.len(), 10);
    let calls = calls(&ada).await;
    let ids: BTreeSet<_> = calls.iter().map(|call| call["id"].as_str()).collect();
    assert_eq!(ids.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_has_only_the_granted_scopes() {
    let service = start_with(Setup::default(), READ, "none").await;
    let ada = service.person("ada").await;
    let work = json!({ "path": "Work" });
    ada.post("/api/v1/mail/folders", &work).await.succeeds(201);
    switch(&ada, true).await;
    deliver(&ada, "move Work").await;
    wait_for_log(&ada, &["move Work"]).await;
    wait_until("the module has tried", async || {
        let result = calls(&ada).await[0]["result"].clone();
        result
            .as_str()
            .is_some_and(|text| text.contains("mail:write"))
    })
    .await;
    assert_eq!(ada.total("Work").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_skipped_while_the_owner_and_wait_while_the_operator_has_disabled_it() {
    let service = start().await;
    let ada = service.person("ada").await;
    switch(&ada, true).await;
    deliver_in_order(&ada, "one").await;
    wait_for_log(&ada, &["one"]).await;

    switch(&ada, false).await;
    deliver_in_order(&ada, "two").await;
    switch(&ada, true).await;
    deliver_in_order(&ada, "three").await;
    wait_for_log(&ada, &["one", "three"]).await;

    let disabled = service.operator("module disable actor", "").await;
    disabled.succeeds();
    deliver_in_order(&ada, "four").await;
    assert_eq!(state(&ada).await["enabled"], true);
    // The time of the test stands still, and the host compares the times of changes.
    service.clock.advance(Duration::from_millis(1));
    service.operator("module enable actor", "").await.succeeds();
    wait_for_log(&ada, &["one", "three", "four"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_call_stops_when_the_owner_disables_the_module() {
    let setup = Setup::default().with("handlers.cpu = 300\nhandlers.deadline = 300");
    let service = start_with(setup, READ_AND_WRITE, "none").await;
    let ada = service.person("ada").await;
    switch(&ada, true).await;
    deliver_in_order(&ada, "spin").await;
    wait_for_log(&ada, &["spin"]).await;
    switch(&ada, false).await;
    switch(&ada, true).await;
    // The next event would wait for the running call.
    deliver_in_order(&ada, "next").await;
    wait_for_log(&ada, &["spin", "next"]).await;
    assert_eq!(state(&ada).await["paused"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_call_stops_when_the_operator_revokes_a_scope() {
    let setup = Setup::default().with("handlers.deadline = 300");
    let mut service = start_with(setup, READ_AND_WRITE, "none").await;
    let file = service.restart_with_file().await;
    let ada = service.person("ada").await;
    switch(&ada, true).await;
    deliver_in_order(&ada, "wait 200").await;
    wait_for_log(&ada, &["wait 200"]).await;

    let granted = std::fs::read_to_string(&file).unwrap();
    let line = |scopes| format!("modules.actor.scopes = {scopes}\n");
    let revoked = granted.replace(&line(READ_AND_WRITE), &line(READ));
    assert_ne!(granted, revoked);
    std::fs::write(&file, revoked).unwrap();
    service.apply_revoked_rights().await;
    // The event arrives again only after the first call has ended.
    wait_for_log(&ada, &["wait 200", "wait 200"]).await;
    let calls = calls(&ada).await;
    assert_eq!(calls[0]["id"], calls[1]["id"]);
    let scopes = [&calls[0], &calls[1]].map(|call| call["caller"]["scopes"].clone());
    assert_eq!(
        scopes,
        [json!(["mail:read", "mail:write"]), json!(["mail:read"])]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_module_misses_no_event_if_an_earlier_key_is_removed() {
    let service = start_with(Setup::default().with(METRICS), READ, "none").await;
    let ada = service.person("ada").await;
    switch(&ada, true).await;
    deliver_in_order(&ada, "one").await;
    wait_for_log(&ada, &["one"]).await;

    let (directory, keys) = (&service.app().directory, service.app().auth.keys());
    let earlier = keys.current();
    service.operator("key rotate", "").await.succeeds();
    wait_until("the position is stored with the new key", async || {
        let rows = &directory.module_handlers;
        let running = rows.running().await.unwrap().remove(0);
        let row = rows.find(&running.account, &running.module).await;
        let row = row.unwrap().unwrap();
        let position = URL_SAFE_NO_PAD.decode(row.cursor).unwrap();
        !position.starts_with(&earlier.id)
    })
    .await;
    // Access tokens of the earlier key must have ended.
    let long_ago = "UPDATE service_keys SET changed_at = changed_at - 3600000";
    service.execute(long_ago).await;
    let remove = format!("key remove {}", earlier.kid);
    wait_until("the earlier key is removed", async || {
        service.operator(&remove, "").await.status == 0
    })
    .await;
    wait_until("the host has one key", async || keys.all().len() == 1).await;
    let ada = ada.sign_in_again().await;
    deliver_in_order(&ada, "two").await;
    wait_for_log(&ada, &["one", "two"]).await;
    let gaps = service.scrape().await;
    assert_eq!(gaps.gauge("latchmail_handler_gaps_total"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_handle_each_event_once_and_one_continues_without_the_other() {
    let mut service = start().await;
    let other = service.second_host().await;
    let ada = service.person("ada").await;
    switch(&ada, true).await;
    let subjects = ["one", "two", "three", "four", "five"];
    for subject in subjects {
        deliver_in_order(&ada, subject).await;
    }
    wait_for_log(&ada, &subjects).await;

    let (address, access) = (ada.address.clone(), ada.access.clone());
    service.stop().await;
    let message =
        format!("From: Grace <grace@outside.test>\nTo: {address}\nSubject: six\n\nSix.\n");
    service.deliver(&address, &message).await;
    wait_until("the other host continues", async || {
        let calls = other.request("GET /actor/calls").bearer_auth(&access);
        let calls: Value = calls.send().await.unwrap().json().await.unwrap();
        let last = calls["calls"].as_array().and_then(|calls| calls.last());
        last.is_some_and(|call| call["instruction"] == "six")
    })
    .await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_shows_changes_and_makes_none() {
    let service = start().await;
    let ada = service.person("ada").await;
    let work = json!({ "path": "Work" });
    ada.post("/api/v1/mail/folders", &work).await.succeeds(201);
    for (number, subject) in ["move Work", "two", "move Work"].into_iter().enumerate() {
        deliver(&ada, subject).await;
        let total = u64::try_from(number).unwrap() + 1;
        wait_until("the message has arrived", async || {
            ada.total("INBOX").await == total
        })
        .await;
    }
    let line = format!("module preview actor --account {}", ada.address);
    let refused = service.operator(&line, "").await;
    refused.fails_mentioning("not enabled");
    switch(&ada, true).await;
    let preview = command(&ada, "preview", " --last 2").await;
    assert_eq!(preview.matches("in INBOX: done").count(), 2, "{preview}");
    assert_eq!(preview.matches("to \"Work\"").count(), 1, "{preview}");
    assert_eq!((ada.total("INBOX").await, ada.total("Work").await), (3, 0));
    assert!(log(&ada).await.is_empty());
    let audit = service.operator("audit", "").await.succeeds();
    assert!(audit.contains("module_handlers_previewed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_blocks_later_events_of_the_mailbox_and_no_others() {
    let service = start_with_clock("none").await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    for person in [&ada, &bob] {
        switch(person, true).await;
    }
    for (person, subject) in [(&ada, "retry 5 1"), (&ada, "later"), (&bob, "other")] {
        deliver_in_order(person, subject).await;
    }
    wait_for_log(&bob, &["other"]).await;
    wait_for_log(&ada, &["retry 5 1"]).await;
    advance(&service, std::time::Duration::from_secs(5));
    wait_for_log(&ada, &["retry 5 1", "retry 5 1", "later"]).await;
    let calls = calls(&ada).await;
    assert_eq!(calls[0]["id"], calls[1]["id"]);
    assert_ne!(calls[0]["id"], calls[2]["id"]);
}
