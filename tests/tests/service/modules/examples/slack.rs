//! The bridge to Slack.

use std::time::Duration;

use latchmail_tests::{Behaviour, Person, Receiver, Response, Service, Setup, wait_until};
use serde_json::json;

use super::{deliver, enable, settings, state};

/// Starts a service whose module may send requests to this receiver.
async fn start(receiver: &Receiver) -> Service {
    let grants = "'caller', 'http-client', 'mailbox', 'store'";
    let more = format!(
        "modules.slack.scopes = ['mail:read']\nmodules.slack.hosts = ['http://{}']",
        receiver.address
    );
    // The times of the next attempts depend on the clock of the test only.
    let setup = Setup::default().on_sqlite().with_mail();
    setup.with(&settings("slack", grants, &more)).start().await
}

async fn set_webhook(person: &Person<'_>, url: &str) -> Response {
    let line = "PUT /api/v1/slack/webhook";
    person.send_json(line, &json!({ "url": url })).await
}

async fn deliver_from_grace(person: &Person<'_>, subject: &str) {
    let header = format!("From: Grace <grace@outside.test>\nSubject: {subject}");
    deliver(person, &header).await;
}

/// Waits until the next attempt of the only enabled mailbox is in the future.
async fn wait_for_delay(service: &Service) {
    let rows = &service.app().directory.module_handlers;
    wait_until("the next attempt waits", async || {
        let running = rows.running().await.unwrap();
        let (account, module) = (&running[0].account, &running[0].module);
        let row = rows.find(account, module).await.unwrap().unwrap();
        row.next_at() > service.clock.now()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_mail_is_posted_and_tried_again_after_a_failure() {
    let receiver = Receiver::start().await;
    let service = start(&receiver).await;
    let ada = service.person("ada").await;
    set_webhook(&ada, &receiver.url("/hook"))
        .await
        .succeeds(200);
    enable(&ada, "slack").await;
    deliver_from_grace(&ada, "R&D").await;
    let posted = receiver.wait_for("/hook", 2).await;
    assert_eq!(posted[0].body["text"], "New mail will be posted here.");
    let text = "Grace: R&amp;D\nText of the message.";
    assert_eq!(posted[1].body, json!({ "text": text }));

    receiver.behave(Behaviour::Status(503));
    deliver_from_grace(&ada, "Later").await;
    receiver.wait_for("/hook", 3).await;
    wait_for_delay(&service).await;
    receiver.behave(Behaviour::Status(200));
    service.clock.advance(Duration::from_mins(1));
    service.app().jobs.wake();
    let posted = receiver.wait_for("/hook", 4).await;
    assert_eq!(posted[2].body, posted[3].body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_was_removed_in_slack_pauses_the_module() {
    let receiver = Receiver::start().await;
    let service = start(&receiver).await;
    let ada = service.person("ada").await;
    set_webhook(&ada, &receiver.url("/hook"))
        .await
        .succeeds(200);
    enable(&ada, "slack").await;
    receiver.behave(Behaviour::Status(404));
    deliver_from_grace(&ada, "Hello").await;
    wait_until("the module is paused", async || {
        state(&ada).await["paused"] == true
    })
    .await;
    let reason = "the webhook responded with status 404";
    assert_eq!(state(&ada).await["pausedReason"], reason);
}

#[tokio::test]
async fn a_webhook_that_does_not_work_or_is_not_allowed_is_not_set() {
    let receiver = Receiver::start().await;
    let service = start(&receiver).await;
    let ada = service.person("ada").await;
    let elsewhere = set_webhook(&ada, "https://elsewhere.example/hook").await;
    assert_eq!(elsewhere.status, 403);
    receiver.behave(Behaviour::Status(404));
    let refused = set_webhook(&ada, &receiver.url("/hook")).await;
    refused.fails(400, "The webhook responded with status 404");
}
