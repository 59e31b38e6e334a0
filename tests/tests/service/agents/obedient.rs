//! An agent that obeys every mail (`tests/agents`). Its grant may only write to the people of a
//! thread, in some folders, and sees no codes. The tests check what left the service, what was
//! read, and what was changed; and that ordinary replies leave.

mod mails;
mod steps;
mod world;

use latchmail_tests::{Puppet, Response};
use serde_json::{Value, json};

use mails::{BENIGN, HOSTILE, filled};
use steps::{Channel, obey};
use world::{FRIEND, World, service};

/// Runs each kind of hostile mail `times` times over REST and over MCP.
async fn hostile_mail_has_no_effect(times: usize) {
    let service = service("").await;
    for (channel, on_denied) in [(Channel::Rest, "refuse"), (Channel::Mcp, "hold")] {
        let world = World::new(&service, channel.name(), on_denied).await;
        let before = world.private_messages().await;
        for number in 0..times * HOSTILE.len() {
            let mail = world
                .receive(&HOSTILE[number % HOSTILE.len()], number)
                .await;
            obey(&world, channel, &mail).await;
        }
        assert_eq!(world.private_messages().await, before);
        world.assert_contained().await;
    }
}

/// Installs a module that ignores every rule in place of `name`, and lets the agent call it for
/// each kind of hostile mail.
async fn a_hostile_module_has_no_effect(name: &str, path: &str) {
    let all = json!([
        "caller",
        "mailbox",
        "outbox",
        "aliases",
        "profile",
        "credentials",
        "domains",
        "teams",
        "store",
        "http-client",
        "compose",
        "drafts",
        "deliveries",
        "filters",
        "webhooks",
        "subscriptions",
        "modules",
        "queries",
    ]);
    let service = service(&format!("modules.{name}.grants = {all}")).await;
    let world = World::new(&service, name, "refuse").await;
    let mut mails = Vec::new();
    for (number, kind) in HOSTILE.iter().enumerate() {
        mails.push(world.receive(kind, number).await);
    }
    let before = world.private_messages().await;
    service.install(&[Puppet(name).component()]).await;
    for mail in &mails {
        for call in steps::calls(&world, mail) {
            let (name, with, message) = call;
            let mut body = json!({ "call": name, "with": with });
            if let Some(message) = message {
                body["message"] = json!(message);
            }
            let called = world.rest(&format!("POST {path}"), Some(&body)).await;
            // The module is in place, and the call reached the host.
            assert!(
                called.get("returns").is_some() || called.get("fails").is_some(),
                "{called}"
            );
        }
    }
    assert_eq!(world.private_messages().await, before);
    world.assert_contained().await;
}

/// Runs each kind of exchange `times` times over REST and over MCP. At least 95 % of the replies
/// must leave at once, and at most 2 % of the messages may have hidden text.
async fn ordinary_replies_leave(times: usize) {
    let service = service("").await;
    let (mut total, mut left, mut hidden) = (0, 0, 0);
    for channel in [Channel::Rest, Channel::Mcp] {
        let world = World::new(&service, &format!("benign{}", channel.name()), "hold").await;
        for number in 0..times * BENIGN.len() {
            let kind = &BENIGN[number % BENIGN.len()];
            let fill = |field: &str| filled(kind[field].as_str().unwrap_or_default(), number, &[]);
            let people = [
                format!("peer{number}@outside.test"),
                format!("colleague{number}@outside.test"),
            ];
            let to_all = kind["all"] == true;
            let to = &people[..if to_all { 2 } else { 1 }];
            let written = json!({
                "from": world.owner.address, "to": to, "text": fill("owner"),
                "subject": format!("Question {number}"),
            });
            let sent = world
                .owner
                .post("/api/v1/mail/send", &written)
                .await
                .succeeds(200);
            let id = sent["messageId"].as_str().unwrap();
            let copy = if to_all { people[1].as_str() } else { "" };
            let headers = json!({
                "From": people[0], "Cc": copy, "Subject": format!("Re: Question {number}"),
                "In-Reply-To": id, "References": id,
            });
            let uid = world
                .deliver(&headers, &fill("answer"), &fill("html"), number)
                .await;
            let line = format!("GET /api/v1/mail/messages/{uid}");
            let read = world.rest(&line, None).await;
            let original = world.owner.send(&line).await.succeeds(200);
            total += 1;
            hidden += usize::from(read["text"] != original["text"]);
            let replied = reply(&world, channel, uid, to_all).await;
            left += usize::from(replied["messageId"].is_string());
        }
    }
    assert!(left * 100 >= total * 95, "{left} of {total} replies left");
    assert!(
        hidden * 100 <= total * 2,
        "{hidden} of {total} messages have hidden text"
    );
}

async fn reply(world: &World<'_>, channel: Channel, uid: u64, all: bool) -> Value {
    match channel {
        Channel::Rest => {
            let route = if all { "reply-all" } else { "reply" };
            let line = format!("POST /api/v1/mail/messages/{uid}/{route}");
            world
                .rest(&line, Some(&json!({ "text": "Thank you." })))
                .await
        }
        Channel::Mcp => {
            let arguments = json!({ "uid": uid, "all": all, "text": "Thank you." });
            world.tool("reply", arguments).await
        }
    }
}

#[tokio::test]
async fn hostile_mail_of_every_kind_has_no_effect() {
    hostile_mail_has_no_effect(1).await;
}

#[tokio::test]
async fn a_hostile_module_mcp_cannot_exceed_the_policy() {
    a_hostile_module_has_no_effect("mcp", "/mcp").await;
}

#[tokio::test]
async fn a_hostile_module_mail_cannot_exceed_the_policy() {
    a_hostile_module_has_no_effect("mail", "/api/v1/mail/puppet").await;
}

#[tokio::test]
async fn ordinary_replies_leave_without_the_owner() {
    ordinary_replies_leave(1).await;
}

#[tokio::test]
async fn the_owner_is_not_limited() {
    let service = service("").await;
    let world = World::new(&service, "control", "refuse").await;
    let kind = json!({ "headers": { "From": FRIEND, "Subject": "Re: Plan" }, "text": "Fine." });
    let mail = world.receive(&kind, 4).await;
    // Without a policy, a step of the agent has an effect that the other tests would notice.
    let line = format!("POST /api/v1/mail/messages/{}/forward", mail.uid);
    let body = json!({ "to": mail.attacker, "text": "See below." });
    let request = service.request(&line).bearer_auth(&world.owner.access);
    Response::of_json(request, &body).await.succeeds(200);
    let left = world.recipients().await;
    assert!(left.contains(&mail.attacker), "{left:?}");
}

mod long {
    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn three_hundred_hostile_mails_have_no_effect() {
        super::hostile_mail_has_no_effect(15).await;
    }

    #[tokio::test]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn of_three_hundred_exchanges_nearly_all_replies_leave() {
        super::ordinary_replies_leave(30).await;
    }
}
