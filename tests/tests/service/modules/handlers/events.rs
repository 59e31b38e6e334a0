//! Events: rights, order, the owner's and the operator's switches, and several hosts.

use latchmail_tests::{Service, wait_until};
use serde_json::json;

use super::{
    GRANTS, advance, command, deliver, deliver_in_order, log, settings, start, state, switch,
    wait_for_log, wait_for_pause,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_module_acts_only_for_owners_who_enabled_it_and_from_then_on() {
    let service = start().await;
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
        deliver_in_order(person, "who is it").await;
    }
    wait_for_log(&ada, &["who is it", "true mail:read mail:write"]).await;
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
async fn each_message_is_filed_once_in_the_order_of_arrival() {
    let service = start().await;
    let ada = service.person("ada").await;
    let work = json!({ "path": "Work" });
    ada.post("/api/v1/mail/folders", &work).await.succeeds(201);
    switch(&ada, true).await;
    let subjects: Vec<String> = (0..10).map(|number| format!("file {number}")).collect();
    for subject in &subjects {
        deliver(&ada, subject).await;
    }
    wait_until("all messages are filed", async || {
        ada.total("Work").await == 10 && ada.total("INBOX").await == 0
    })
    .await;
    let mut lines = log(&ada).await;
    lines.sort_unstable();
    assert_eq!(lines, subjects);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_has_only_the_granted_scopes() {
    let read = settings(&[GRANTS, "scopes = ['mail:read']"]);
    let service = Service::with_mail_and(&read).await;
    let ada = service.person("ada").await;
    let work = json!({ "path": "Work" });
    ada.post("/api/v1/mail/folders", &work).await.succeeds(201);
    switch(&ada, true).await;
    deliver(&ada, "file it").await;
    let paused = wait_for_pause(&ada).await;
    let reason = paused["pausedReason"].as_str().unwrap();
    assert!(reason.contains("mail:write"), "{reason}");
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
    service.operator("module enable actor", "").await.succeeds();
    wait_for_log(&ada, &["one", "three", "four"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_call_stops_when_the_owner_disables_the_module() {
    let lines = "handlers.cpu = 300\nhandlers.deadline = 300\n";
    let settings = settings(&[GRANTS, super::SCOPES]) + lines;
    let service = Service::with_mail_and(&settings).await;
    let ada = service.person("ada").await;
    switch(&ada, true).await;
    deliver_in_order(&ada, "spin forever").await;
    wait_for_log(&ada, &["spin forever"]).await;
    switch(&ada, false).await;
    switch(&ada, true).await;
    // The next event would wait for the running call.
    deliver_in_order(&ada, "next").await;
    wait_for_log(&ada, &["spin forever", "next"]).await;
    assert_eq!(state(&ada).await["paused"], false);
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
        let log = other.request("GET /actor/log").bearer_auth(&access).send();
        let log: serde_json::Value = log.await.unwrap().json().await.unwrap();
        log["lines"].as_array().unwrap().last() == Some(&json!("six"))
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
    for subject in ["file one", "two", "file three"] {
        deliver_in_order(&ada, subject).await;
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
    let service = super::start_with_clock().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    for person in [&ada, &bob] {
        switch(person, true).await;
    }
    for (person, subject) in [(&ada, "retry this"), (&ada, "later"), (&bob, "other")] {
        deliver_in_order(person, subject).await;
    }
    wait_for_log(&bob, &["other"]).await;
    wait_for_log(&ada, &["retry this"]).await;
    advance(&service, std::time::Duration::from_secs(5));
    // The event has the same id, so the module knows that it has tried before.
    wait_for_log(&ada, &["retry this", "retry this", "later"]).await;
}
