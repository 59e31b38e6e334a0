//! Subscriptions of agents to events (MCP Events).

use latchmail_tests::{Agent, Behaviour, Receiver};
use serde_json::{Value, json};

use super::{deliver, start};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn subscription(receiver: &Receiver, secret: &str) -> Value {
    json!({
        "name": "message.created", "arguments": { "folder": "INBOX" }, "cursor": null,
        "delivery": { "mode": "webhook", "url": receiver.url("/"), "secret": secret },
    })
}

async fn subscribe(agent: &Agent<'_>, receiver: &Receiver, secret: &str) -> Value {
    let response = agent
        .send("events/subscribe", subscription(receiver, secret))
        .await;
    response.succeeds(200)
}

#[tokio::test]
async fn an_agent_gets_events_until_it_unsubscribes() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let agent = Agent::for_person(&ada).await;
    let found = agent.send("server/discover", json!({})).await.succeeds(200);
    let capabilities = &found["result"]["capabilities"];
    assert_eq!(capabilities["events"], json!({}));
    assert_eq!(
        capabilities["extensions"]["io.modelcontextprotocol/events"],
        json!({})
    );

    let subscribed = subscribe(&agent, &receiver, SECRET).await;
    let id = subscribed["result"]["id"].as_str().unwrap().to_owned();
    let verification = receiver.received().remove(0);
    assert_eq!(verification.body["type"], "verification");
    assert!(verification.id.starts_with("msg_verification_"));
    assert!(verification.is_signed_with(SECRET));
    assert_eq!(verification.subscription, id);

    deliver(&ada, "one").await;
    let event = receiver.wait_for("/", 2).await.remove(1);
    assert!(event.is_signed_with(SECRET));
    assert_eq!((&event.subscription, event.body.get("type")), (&id, None));
    assert_eq!(
        (&event.body["eventId"], &event.body["cursor"]),
        (&json!(event.id), &Value::Null)
    );
    assert_eq!(event.body["name"], "message.created");
    let data = &event.body["data"];
    assert_eq!(
        (&data["subject"], &data["untrusted"]),
        (&json!("one"), &json!(true))
    );
    assert_eq!(data["sender"]["address"], "grace@outside.test");

    // A refresh keeps the id, needs no verification, and replaces the secret.
    let refreshed = subscribe(&agent, &receiver, OTHER_SECRET).await;
    assert_eq!(refreshed["result"]["id"], json!(id));
    assert!(refreshed["result"]["deliveryStatus"]["lastDeliveryAt"].is_string());
    deliver(&ada, "two").await;
    let event = receiver.wait_for("/", 3).await.remove(2);
    assert!(event.is_signed_with(SECRET) && event.is_signed_with(OTHER_SECRET));

    let end = subscription(&receiver, SECRET);
    let ended = agent
        .send("events/unsubscribe", end.clone())
        .await
        .succeeds(200);
    assert!(ended.get("error").is_none(), "{ended}");
    let again = agent.send("events/unsubscribe", end).await;
    assert_eq!(again.json["error"]["code"], -32011);
    // The session does not list subscriptions as webhooks.
    let listed = ada.send("GET /api/v1/webhooks").await.succeeds(200);
    assert_eq!(listed, json!({ "webhooks": [] }));
}

#[tokio::test]
async fn a_callback_without_the_challenge_gets_no_events() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let agent = Agent::for_person(&ada).await;
    for (behaviour, reason) in [
        (Behaviour::Status(200), "challenge_failed"),
        (Behaviour::Status(404), "http_4xx"),
        (Behaviour::Status(503), "http_5xx"),
    ] {
        receiver.behave(behaviour);
        let refused = subscribe(&agent, &receiver, SECRET).await;
        assert_eq!(refused["error"]["code"], -32015);
        assert_eq!(refused["error"]["data"], json!({ "reason": reason }));
    }
    let mut elsewhere = subscription(&receiver, SECRET);
    elsewhere["delivery"]["url"] = json!("https://10.0.0.1/");
    let refused = agent.send("events/subscribe", elsewhere).await;
    assert_eq!(refused.json["error"]["code"], -32602);
}

#[tokio::test]
async fn a_subscription_ends_with_the_grant_of_the_agent() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let agent = Agent::for_person(&ada).await;
    let subscribed = subscribe(&agent, &receiver, SECRET).await;
    let grants = ada.send("GET /api/v1/profile/grants").await.succeeds(200);
    let grant = grants["grants"][0]["id"].as_str().unwrap();
    let line = format!("DELETE /api/v1/profile/grants/{grant}");
    ada.send(&line).await.succeeds(200);
    let terminated = receiver.wait_for("/", 2).await.remove(1);
    assert_eq!(terminated.body["type"], "terminated");
    assert_eq!(terminated.body["error"]["code"], -32012);
    assert!(terminated.id.starts_with("msg_terminated_") && terminated.is_signed_with(SECRET));
    assert_eq!(subscribed["result"]["id"], terminated.subscription);
    deliver(&ada, "one").await;
    ada.wait_for_message("one").await;
    assert_eq!(receiver.received().len(), 2);
}

#[tokio::test]
async fn verifications_for_one_agent_do_not_block_the_receiver_for_another_agent() {
    let (service, receiver) = start().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let (first, second) = (Agent::for_person(&ada).await, Agent::for_person(&bob).await);
    let subscribe = async |agent: &Agent<'_>, number: u32| {
        let mut subscription = subscription(&receiver, SECRET);
        subscription["delivery"]["url"] = json!(receiver.url(&format!("/{number}")));
        agent.send("events/subscribe", subscription).await.json
    };
    for number in 0..10 {
        let subscribed = subscribe(&first, number).await;
        assert!(subscribed["result"]["id"].is_string(), "{subscribed}");
    }
    let refused = subscribe(&first, 10).await;
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["data"]),
        (
            &json!(-32013),
            &json!({ "limit": "verifications", "max": 10 })
        )
    );
    // A refresh needs no verification.
    for (agent, number) in [(&first, 0), (&second, 10)] {
        let subscribed = subscribe(agent, number).await;
        assert!(subscribed["result"]["id"].is_string(), "{subscribed}");
    }
}

#[tokio::test]
async fn two_agents_of_a_user_with_the_same_url_have_two_subscriptions() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let (first, second) = (Agent::for_person(&ada).await, Agent::for_person(&ada).await);
    let ended = subscribe(&first, &receiver, SECRET).await;
    let kept = subscribe(&second, &receiver, OTHER_SECRET).await;
    assert_ne!(ended["result"]["id"], kept["result"]["id"]);
    let end = subscription(&receiver, SECRET);
    let response = first.send("events/unsubscribe", end).await.succeeds(200);
    assert!(response.get("error").is_none(), "{response}");
    deliver(&ada, "one").await;
    // After the two verifications.
    let event = receiver.wait_for("/", 3).await.remove(2);
    assert_eq!(kept["result"]["id"], event.subscription);
    assert!(event.is_signed_with(OTHER_SECRET) && !event.is_signed_with(SECRET));
}
