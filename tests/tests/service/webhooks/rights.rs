//! A webhook has the rights of the credential that created it, and ends with it.

use std::time::Duration;

use latchmail_tests::{Person, Receiver, Response, Service, wait_until};
use serde_json::{Value, json};

use super::{advance, create, deliver, start};
use crate::accounts::sharing::rules::Grant;
use crate::accounts::sharing::shared_mailbox::SharedMailbox;

/// Creates a webhook with another credential.
async fn create_with(service: &Service, credential: &str, url: &str) -> String {
    let request = service
        .request("POST /api/v1/webhooks")
        .bearer_auth(credential);
    let created = Response::of_json(request, &json!({ "url": url })).await;
    created.succeeds(201)["id"].as_str().unwrap().to_owned()
}

async fn list(person: &Person<'_>) -> Vec<Value> {
    let listed = person.send("GET /api/v1/webhooks").await.succeeds(200);
    listed["webhooks"].as_array().unwrap().clone()
}

/// Delivers a message, and waits until this receiver's path `/session` has its event. Returns the
/// number of requests to `path`.
async fn count_after_mail(
    ada: &Person<'_>,
    receiver: &Receiver,
    subject: &str,
    path: &str,
) -> usize {
    let before = receiver.received_at("/session").len();
    deliver(ada, subject).await;
    receiver.wait_for("/session", before + 1).await;
    receiver.received_at(path).len()
}

#[tokio::test]
async fn a_webhook_ends_with_its_token_and_pauses_with_a_suspension() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    let secret = token["token"].as_str().unwrap();
    let id = create_with(&service, secret, &receiver.url("/token")).await;
    create(&ada, &json!({ "url": receiver.url("/session") })).await;
    deliver(&ada, "one").await;
    receiver.wait_for("/token", 1).await;
    receiver.wait_for("/session", 1).await;

    let grant = format!("/api/v1/profile/grants/{}", token["id"].as_str().unwrap());
    ada.send(&format!("POST {grant}/suspend"))
        .await
        .succeeds(200);
    assert_eq!(count_after_mail(&ada, &receiver, "two", "/token").await, 1);
    ada.send(&format!("POST {grant}/resume"))
        .await
        .succeeds(200);
    // A suspension that ends soon can be noticed later.
    advance(&service, Duration::from_secs(5));
    receiver.wait_for("/token", 2).await;

    // The token sees only its own webhook, and the session sees both.
    let listed = service.with_bearer("GET /api/v1/webhooks", secret).await;
    let listed = listed.succeeds(200);
    assert_eq!(listed["webhooks"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&listed["webhooks"][0]["id"], list(&ada).await.len()),
        (&json!(id), 2)
    );

    ada.send(&format!("DELETE {grant}")).await.succeeds(200);
    assert_eq!(list(&ada).await.len(), 1);
    assert_eq!(
        count_after_mail(&ada, &receiver, "three", "/token").await,
        2
    );
}

#[tokio::test]
async fn the_webhook_of_a_session_ends_when_the_user_signs_out() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    let secret = token["token"].as_str().unwrap();
    create_with(&service, secret, &receiver.url("/token")).await;
    create(&ada, &json!({ "url": receiver.url("/session") })).await;
    assert_eq!(list(&ada).await.len(), 2);
    let body = json!({ "refreshToken": ada.refresh });
    ada.post("/api/v1/auth/logout", &body).await.succeeds(200);
    let ada = ada.sign_in_again().await;
    assert_eq!(list(&ada).await.len(), 1);
    deliver(&ada, "one").await;
    receiver.wait_for("/token", 1).await;
    assert_eq!(receiver.received_at("/session"), []);
}

#[tokio::test]
async fn a_member_gets_events_of_granted_folders_until_the_grant_ends() {
    let (service, receiver) = start().await;
    let mut shared = SharedMailbox::new(&service).await;
    let alpha = shared.folder("Alpha").await;
    let invited = shared
        .invite("bob", &Grant::on("folder", &alpha, &["mail:read"]))
        .await;
    let grant = invited.succeeds(201)["grantId"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/api/v1/webhooks?mailbox={}", shared.mailbox);
    let body = json!({ "url": receiver.url("/member"), "payload": "summary" });
    shared.bob.post(&path, &body).await.succeeds(201);
    create(&shared.ada, &json!({ "url": receiver.url("/session") })).await;
    shared.append("Beta", "hidden").await;
    shared.append("Alpha", "visible").await;
    let requests = receiver.wait_for("/member", 1).await;
    assert_eq!(requests[0].body["data"]["subject"], "visible");
    receiver.wait_for("/session", 2).await;
    assert_eq!(receiver.received_at("/member").len(), 1);
    // The owner's session lists the webhook of the member too.
    assert_eq!(list(&shared.ada).await.len(), 2);
    assert_eq!(list(&shared.bob).await.len(), 0);

    shared.revoke(&grant).await;
    shared.append("Alpha", "late").await;
    receiver.wait_for("/session", 3).await;
    wait_until("the member's webhook is disabled", async || {
        list(&shared.ada)
            .await
            .iter()
            .any(|one| one["state"] == "disabled")
    })
    .await;
    assert_eq!(receiver.received_at("/member").len(), 1);
}

#[tokio::test]
async fn an_account_has_at_most_20_webhooks() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let body = json!({ "url": receiver.url("/") });
    for _ in 0..20 {
        create(&ada, &body).await;
    }
    let full = ada.post("/api/v1/webhooks", &body).await;
    full.fails(409, "An account can have at most 20 webhooks");
    let id = list(&ada).await[0]["id"].as_str().unwrap().to_owned();
    ada.send(&format!("DELETE /api/v1/webhooks/{id}"))
        .await
        .succeeds(200);
    create(&ada, &body).await;
}
