//! The events of webhooks: content, order, signatures, tests and replays.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchmail_tests::{Behaviour, append_message, imap, wait_until};
use serde_json::{Value, json};

use super::{advance, create, deliver, deliveries, start, start_with_clock, wait_for_state};

#[tokio::test]
async fn events_arrive_signed_and_in_order() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let body = json!({
        "url": receiver.url("/new"), "types": ["message.created"], "folder": "INBOX",
        "payload": "summary",
    });
    let (_, secret) = create(&ada, &body).await;
    let (_, other_secret) = create(&ada, &json!({ "url": receiver.url("/all") })).await;
    let mut client = imap(&ada).await;
    client.create("Elsewhere").await.unwrap();
    append_message(&mut client, "Elsewhere", "hidden").await;
    for subject in ["one", "two", "three"] {
        deliver(&ada, subject).await;
        ada.wait_for_message(subject).await;
    }
    let requests = receiver.wait_for("/new", 3).await;
    let subjects: Vec<_> = requests
        .iter()
        .map(|one| &one.body["data"]["subject"])
        .collect();
    assert_eq!(subjects, ["one", "two", "three"]);
    for (one, subject) in requests.iter().zip(["one", "two", "three"]) {
        assert_eq!(
            (&one.body["type"], &one.body["id"]),
            (&json!("message.created"), &json!(one.id))
        );
        let data = &one.body["data"];
        assert_eq!(
            (&data["type"], &data["folder"]),
            (&json!("created"), &json!("INBOX"))
        );
        assert_eq!(data["uid"], ada.uid_of("INBOX", subject).await);
        let sender = json!({ "name": "Grace", "address": "grace@outside.test" });
        assert_eq!(data["sender"], sender);
        assert!(one.is_signed_with(&secret) && !one.is_signed_with(&other_secret));
        assert_eq!(one.subscription, "");
    }
    // The other webhook has the events of all folders, without subjects.
    let all = receiver.wait_for("/all", 5).await;
    let types: Vec<_> = all
        .iter()
        .map(|one| one.body["type"].as_str().unwrap())
        .collect();
    assert_eq!(types[..2], ["folder.created", "message.created"]);
    assert!(
        all.iter()
            .all(|one| !one.text.contains("hidden") && !one.text.contains("one\""))
    );
    assert!(
        all.iter()
            .all(|one| one.body["data"].get("subject").is_none())
    );
}

#[tokio::test]
async fn an_event_has_the_same_id_and_body_after_a_failure_and_a_restart() {
    let (mut service, receiver) = start().await;
    receiver.behave(Behaviour::Status(500));
    let ada = service.person("ada").await;
    let body = json!({ "url": receiver.url("/"), "payload": "summary" });
    let (id, secret) = create(&ada, &body).await;
    deliver(&ada, "first").await;
    let first = receiver.wait_for("/", 1).await.remove(0);
    let mut failed = json!(null);
    latchmail_tests::wait_until("the attempt is recorded", async || {
        failed = deliveries(&ada, &id).await[0].clone();
        failed["attempts"] == 1
    })
    .await;
    assert_eq!(failed["state"], "pending");
    assert_eq!(failed["error"], "The receiver responded with 500");
    assert_eq!(
        (&failed["status"], &failed["eventId"]),
        (&json!(500), &json!(first.id))
    );
    deliver(&ada, "second").await;
    let user = json!({ "email": ada.address });
    let pair = json!({ "accessToken": ada.access, "refreshToken": ada.refresh, "user": user });
    service.restart().await;
    let ada = latchmail_tests::Person::from_token_pair(&service, &pair);
    receiver.behave(Behaviour::Status(204));
    advance(&service, Duration::from_secs(2));
    let requests = receiver.wait_for("/", 3).await;
    let again = &requests[requests.len() - 2];
    assert_eq!((&again.id, &again.text), (&first.id, &first.text));
    assert!(again.is_signed_with(&secret));
    assert_eq!(requests.last().unwrap().body["data"]["subject"], "second");
    wait_for_state(&ada, &id, "delivered").await;
    let all = deliveries(&ada, &id).await;
    assert_eq!(all.len(), 2);
    assert_eq!(
        (&all[1]["state"], &all[1]["error"]),
        (&json!("delivered"), &Value::Null)
    );
}

#[tokio::test]
async fn a_rotated_secret_signs_together_with_the_previous_one_for_a_day() {
    let (service, receiver) = start_with_clock().await;
    let ada = service.person("ada").await;
    let (id, first) = create(&ada, &json!({ "url": receiver.url("/") })).await;
    let test = format!("POST /api/v1/webhooks/{id}/test");
    let sent = ada.send(&test).await.succeeds(200);
    assert_eq!(
        (&sent["state"], &sent["status"]),
        (&json!("delivered"), &json!(204))
    );
    let rotated = ada
        .send(&format!("POST /api/v1/webhooks/{id}/rotate"))
        .await;
    let second = rotated.succeeds(200)["secret"].as_str().unwrap().to_owned();
    ada.send(&test).await.succeeds(200);
    service.clock.advance(Duration::from_hours(24));
    let ada = ada.refreshed().await;
    ada.send(&test).await.succeeds(200);
    let requests = receiver.received();
    let signed: Vec<_> = requests
        .iter()
        .map(|one| [&first, &second].map(|secret| one.is_signed_with(secret)))
        .collect();
    assert_eq!(signed, [[true, false], [true, true], [false, true]]);
    assert!(
        requests
            .iter()
            .all(|one| one.body["type"] == "webhook.test")
    );
}

#[tokio::test]
async fn a_delivered_event_can_be_sent_again() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let (id, _) = create(&ada, &json!({ "url": receiver.url("/") })).await;
    deliver(&ada, "one").await;
    let delivered = wait_for_state(&ada, &id, "delivered").await;
    let delivery = delivered["id"].as_str().unwrap();
    let replay = format!("POST /api/v1/webhooks/{id}/deliveries/{delivery}/replay");
    let replayed = ada.send(&replay).await.succeeds(202);
    assert_eq!(replayed["state"], "pending");
    let requests = receiver.wait_for("/", 2).await;
    assert_eq!(
        (&requests[0].id, &requests[0].text),
        (&requests[1].id, &requests[1].text)
    );
    let none = format!("POST /api/v1/webhooks/{id}/deliveries/none/replay");
    ada.send(&none).await.fails(404, "Delivery not found");
}

#[tokio::test]
async fn an_idle_webhook_misses_no_event_if_an_earlier_key_is_removed() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let (id, _) = create(&ada, &json!({ "url": receiver.url("/") })).await;
    let (directory, keys) = (&service.app().directory, service.app().auth.keys());
    let earlier = keys.current();
    service.operator("key rotate", "").await.succeeds();
    wait_until("the position is stored with the new key", async || {
        let webhook = directory.webhooks.find(&id, service.clock.now()).await;
        let position = webhook.unwrap().unwrap().cursor.unwrap();
        !URL_SAFE_NO_PAD
            .decode(position)
            .unwrap()
            .starts_with(&earlier.id)
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
    deliver(&ada, "one").await;
    let event = receiver.wait_for("/", 1).await.remove(0);
    assert_eq!(event.body["type"], "message.created");
}
