//! Receivers that fail, hang or refuse events.

use std::time::Duration;

use latchmail_tests::{Agent, Behaviour, Receiver, Service, wait_until};
use serde_json::{Value, json};

use super::{advance, create, deliver, deliveries, start, start_with_clock, state, wait_for_state};

#[tokio::test]
async fn a_receiver_that_is_gone_disables_its_webhook() {
    let (service, receiver) = start().await;
    receiver.behave(Behaviour::Status(410));
    let ada = service.person("ada").await;
    let (id, _) = create(&ada, &json!({ "url": receiver.url("/") })).await;
    deliver(&ada, "one").await;
    wait_for_state(&ada, &id, "failed").await;
    wait_until("the webhook is disabled", async || {
        state(&ada, &id).await["state"] == "disabled"
    })
    .await;
    assert_eq!(
        state(&ada, &id).await["reason"],
        "The receiver responded with 410"
    );
    let audit = service.operator("audit", "").await;
    assert!(audit.succeeds().contains("webhook_disabled"));

    // Another change does not enable the webhook.
    let line = format!("PATCH /api/v1/webhooks/{id}");
    let changed = ada.send_json(&line, &json!({ "payload": "summary" })).await;
    assert_eq!(changed.succeeds(200)["state"], "disabled");

    // An enabled webhook continues with the events that it has not sent.
    deliver(&ada, "two").await;
    ada.wait_for_message("two").await;
    receiver.behave(Behaviour::Status(200));
    let enabled = ada
        .send_json(&line, &json!({ "enabled": true }))
        .await
        .succeeds(200);
    assert_eq!(
        (&enabled["state"], &enabled["reason"]),
        (&json!("active"), &Value::Null)
    );
    receiver.wait_for("/", 2).await;
    assert_eq!(receiver.received().len(), 2);
}

#[tokio::test]
async fn an_event_fails_after_a_day_and_the_webhook_after_three_days() {
    let (service, receiver) = start_with_clock().await;
    receiver.behave(Behaviour::Status(500));
    let ada = service.person("ada").await;
    let (id, _) = create(&ada, &json!({ "url": receiver.url("/") })).await;
    for subject in ["one", "two"] {
        deliver(&ada, subject).await;
        ada.wait_for_message(subject).await;
    }
    let began = service.clock.now();
    let mut first_failed_after = None;
    let mut count = 1;
    let mut person = ada;
    loop {
        // The webhook is disabled some time after the attempt is recorded.
        wait_until("an attempt, or the end of the webhook", async || {
            receiver.received_at("/").len() >= count
                || state(&person, &id).await["state"] == "disabled"
        })
        .await;
        if receiver.received_at("/").len() < count {
            break;
        }
        wait_until("the attempt is recorded", async || {
            let all = deliveries(&person, &id).await;
            let attempts = all
                .iter()
                .map(|one| one["attempts"].as_u64().unwrap())
                .sum::<u64>();
            if first_failed_after.is_none() && all.last().unwrap()["state"] == "failed" {
                first_failed_after = Some(service.clock.now().since(began));
            }
            attempts >= count as u64
        })
        .await;
        if state(&person, &id).await["state"] == "disabled" {
            break;
        }
        assert!(service.clock.now().since(began) < Duration::from_hours(80));
        let wait = if count % 14 == 0 {
            Duration::ZERO
        } else {
            Duration::from_hours(5)
        };
        advance(&service, wait);
        person = person.refreshed().await;
        count += 1;
    }
    assert!(service.clock.now().since(began) >= Duration::from_hours(72));
    let after = first_failed_after.unwrap();
    assert!(after > Duration::from_hours(20), "{after:?}");
    let disabled = state(&person, &id).await;
    let reason = disabled["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("The receiver accepted no event for three days."),
        "{reason}"
    );
}

#[tokio::test]
async fn a_receiver_that_hangs_delays_no_other_receiver() {
    let (slow, fast) = (Receiver::start().await, Receiver::start().await);
    slow.behave(Behaviour::Silence);
    let allow = format!("webhooks.allow = ['{}', '{}']", slow.address, fast.address);
    let service = Service::with_mail_and(&allow).await;
    let ada = service.person("ada").await;
    for number in 0..10 {
        let body = json!({ "url": slow.url(&format!("/{number}")) });
        create(&ada, &body).await;
    }
    let (id, _) = create(&ada, &json!({ "url": fast.url("/") })).await;
    deliver(&ada, "one").await;
    fast.wait_for("/", 1).await;
    wait_for_state(&ada, &id, "delivered").await;
    // The attempts of the other receiver have not ended.
    assert!(slow.received().len() <= 8, "{}", slow.received().len());
}

#[tokio::test]
async fn requests_of_an_account_that_hang_do_not_delay_another_account_at_the_same_receiver() {
    let (service, receiver) = start().await;
    receiver.behave(Behaviour::Silence);
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    for number in 0..10 {
        let body = json!({ "url": receiver.url(&format!("/ada/{number}")) });
        create(&ada, &body).await;
    }
    create(&bob, &json!({ "url": receiver.url("/bob") })).await;
    deliver(&ada, "one").await;
    wait_until("all permits of the receiver are used", async || {
        receiver.received().len() == 8
    })
    .await;
    deliver(&bob, "two").await;
    receiver.wait_for("/bob", 1).await;
    // The two other webhooks of the first account still wait, so no request has ended.
    let paths: Vec<_> = receiver
        .received()
        .into_iter()
        .map(|one| one.path)
        .collect();
    assert_eq!(paths.iter().position(|path| path == "/bob"), Some(8));
}

#[tokio::test]
async fn all_webhooks_of_an_account_can_hang_without_delay_for_its_agents() {
    let mut receivers = Vec::new();
    for _ in 0..4 {
        receivers.push(Receiver::start().await);
    }
    let (fast, slow) = receivers.split_last().unwrap();
    let addresses: Vec<_> = receivers
        .iter()
        .map(|one| one.address.to_string())
        .collect();
    let service = Service::with_mail_and(&format!("webhooks.allow = {addresses:?}")).await;
    let ada = service.person("ada").await;
    let agent = Agent::for_person(&ada).await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let subscription = json!({
        "name": "message.created", "arguments": { "folder": "INBOX" },
        "delivery": { "mode": "webhook", "url": fast.url("/"), "secret": secret },
    });
    let subscribed = agent.send("events/subscribe", subscription).await;
    assert!(subscribed.succeeds(200)["result"]["id"].is_string());
    let mut ids = Vec::new();
    for number in 0..20 {
        let receiver = &slow[number % slow.len()];
        receiver.behave(Behaviour::Silence);
        let body = json!({ "url": receiver.url(&format!("/{number}")) });
        ids.push(create(&ada, &body).await.0);
    }
    deliver(&ada, "one").await;
    wait_until("all webhooks hang", async || {
        let received = slow.iter().map(|one| one.received().len());
        received.sum::<usize>() == ids.len()
    })
    .await;
    deliver(&ada, "two").await;
    // The verification and two events.
    fast.wait_for("/", 3).await;
    for id in &ids {
        let oldest = deliveries(&ada, id).await.pop().unwrap();
        assert_eq!(oldest["attempts"], 0, "an attempt has ended");
    }
}
