//! Two hosts that share a database send the events of webhooks.

use latchmail_tests::wait_until;
use serde_json::json;

use super::{create, deliver, deliveries, start};

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_send_each_event_once_and_one_continues_without_the_other() {
    let (mut service, receiver) = start().await;
    let other = service.second_host().await;
    let ada = service.person("ada").await;
    let body = json!({ "url": receiver.url("/"), "payload": "summary" });
    create(&ada, &body).await;
    let subjects = ["one", "two", "three", "four", "five"];
    for subject in subjects {
        deliver(&ada, subject).await;
    }
    receiver.wait_for("/", subjects.len()).await;
    let line = "GET /api/v1/webhooks";
    let id = ada.send(line).await.succeeds(200)["webhooks"][0]["id"].clone();
    wait_until("all events are delivered", async || {
        let all = deliveries(&ada, id.as_str().unwrap()).await;
        all.len() == subjects.len() && all.iter().all(|one| one["state"] == "delivered")
    })
    .await;
    let requests = receiver.received();
    let mut found: Vec<_> = requests
        .iter()
        .map(|one| one.body["data"]["subject"].as_str().unwrap())
        .collect();
    found.sort_unstable();
    let mut expected = subjects;
    expected.sort_unstable();
    assert_eq!(found, expected);

    let (address, access) = (ada.address.clone(), ada.access.clone());
    service.stop().await;
    let message =
        format!("From: Grace <grace@outside.test>\nTo: {address}\nSubject: six\n\nSix.\n");
    service.deliver(&address, &message).await;
    let all = receiver.wait_for("/", subjects.len() + 1).await;
    assert_eq!(all[subjects.len()].body["data"]["subject"], "six");
    let listed = other
        .request(line)
        .bearer_auth(&access)
        .send()
        .await
        .unwrap();
    assert_eq!(listed.status(), 200);
    other.stop().await;
}
