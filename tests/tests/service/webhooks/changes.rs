//! Changes of the settings of webhooks.

use latchmail_tests::{Behaviour, Receiver, Service};
use serde_json::json;

use super::{create, deliver, deliveries, start, state, wait_for_state};

#[tokio::test]
async fn concurrent_changes_of_different_fields_are_all_made() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let (id, _) = create(&ada, &json!({ "url": receiver.url("/") })).await;
    let line = format!("PATCH /api/v1/webhooks/{id}");
    for round in 0..8 {
        let (url, enabled) = (receiver.url(&format!("/{round}")), round % 2 == 0);
        let types = json!([["message.created"], ["message.flags"]][round % 2]);
        let payload = ["summary", "ids"][round % 2];
        let bodies = [
            json!({ "url": url }),
            json!({ "types": types, "payload": payload }),
            json!({ "enabled": enabled }),
        ];
        let [first, second, third] = bodies.each_ref().map(|one| ada.send_json(&line, one));
        let (first, second, third) = tokio::join!(first, second, third);
        for response in [first, second, third] {
            response.succeeds(200);
        }
        let changed = state(&ada, &id).await;
        let expected_state = if enabled { "active" } else { "disabled" };
        assert_eq!(
            (
                &changed["url"],
                &changed["types"],
                &changed["payload"],
                &changed["state"]
            ),
            (&json!(url), &types, &json!(payload), &json!(expected_state)),
            "round {round}"
        );
    }
}

#[tokio::test]
async fn a_new_url_gets_the_event_of_a_running_attempt_at_once() {
    let (slow, fast) = (Receiver::start().await, Receiver::start().await);
    slow.behave(Behaviour::Silence);
    let allow = format!("webhooks.allow = ['{}', '{}']", slow.address, fast.address);
    let service = Service::with_mail_and(&allow).await;
    let ada = service.person("ada").await;
    let (id, _) = create(&ada, &json!({ "url": slow.url("/") })).await;
    deliver(&ada, "one").await;
    slow.wait_for("/", 1).await;
    let line = format!("PATCH /api/v1/webhooks/{id}");
    let changed = ada.send_json(&line, &json!({ "url": fast.url("/") })).await;
    changed.succeeds(200);
    let event = fast.wait_for("/", 1).await.remove(0);
    assert_eq!(event.id, slow.received()[0].id);
    let delivered = wait_for_state(&ada, &id, "delivered").await;
    // The cancelled attempt does not count.
    assert_eq!(delivered["attempts"], 1);
}

#[tokio::test]
async fn an_event_that_is_sent_again_does_not_wait_for_a_running_attempt() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let (id, _) = create(&ada, &json!({ "url": receiver.url("/") })).await;
    deliver(&ada, "one").await;
    wait_for_state(&ada, &id, "delivered").await;
    receiver.behave(Behaviour::Silence);
    deliver(&ada, "two").await;
    receiver.wait_for("/", 2).await;
    receiver.behave(Behaviour::Status(204));
    let first = deliveries(&ada, &id).await.pop().unwrap();
    let delivery = first["id"].as_str().unwrap();
    let line = format!("POST /api/v1/webhooks/{id}/deliveries/{delivery}/replay");
    ada.send(&line).await.succeeds(202);
    let requests = receiver.wait_for("/", 4).await;
    let ids: Vec<_> = requests.iter().map(|one| &*one.id).collect();
    let (one, two) = (ids[0], ids[1]);
    assert_eq!(ids, [one, two, one, two]);
    let second = wait_for_state(&ada, &id, "delivered").await;
    assert_eq!(second["attempts"], 1);
}
