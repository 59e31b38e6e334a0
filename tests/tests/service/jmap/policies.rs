//! The policy of an API token applies to its requests over JMAP.

use latchmail_tests::Person;
use serde_json::{Value, json};

use super::{Jmap, email, service, text};

/// Creates an API token with a policy. Returns a client with the token.
async fn limited<'a>(person: &Person<'a>, policy: &Value) -> Jmap<'a> {
    let token = person
        .token(&["mail:read", "mail:write", "mail:send"])
        .await;
    let line = format!("PUT /api/v1/profile/grants/{}/policy", text(&token["id"]));
    person.send_json(&line, policy).await.succeeds(200);
    Jmap::with_credential(person.service, &text(&token["token"])).await
}

#[tokio::test]
async fn a_query_cannot_guess_a_hidden_code() {
    let service = service().await;
    let ada = service.person("ada").await;
    let owner = Jmap::connect(&ada).await;
    let message = "From: Shop <shop@elsewhere.example>\nSubject: Sign in\n\n\
        Your verification code is 493827.";
    ada.receive(message).await;
    let id = ada.uid_of("INBOX", "Sign in").await.to_string();
    let client = limited(&ada, &json!({ "hideCodes": true })).await;
    let all = client.call("Email/query", json!({})).await;
    assert_eq!(all["ids"], json!([id]));
    let words = |word: &str| json!({ "filter": { "text": word } });
    assert_eq!(
        owner.call("Email/query", words("493827")).await["ids"],
        json!([id])
    );
    let no_words = json!({ "operator": "NOT", "conditions": [{ "text": "493827" }] });
    for filter in [
        words("493827"),
        words("verification"),
        json!({ "filter": no_words }),
    ] {
        let found = client.call("Email/query", filter).await;
        assert_eq!(found["ids"], json!([]));
    }
    let summary = json!({ "ids": [id], "properties": ["subject", "preview"] });
    let found = client.call("Email/get", summary).await;
    assert!(!found.to_string().contains("493827"), "{found}");
    let whole = json!({ "ids": [id] });
    assert_eq!(client.error("Email/get", whole).await, "forbidden");
    let raw = client.download(&format!("M{id}"), "a").await;
    assert_eq!(raw.status, 403, "{}", raw.json);
}

#[tokio::test]
async fn a_submission_follows_the_policy() {
    let service = service().await;
    let ada = service.person("ada").await;
    let grace = service.person("grace").await;
    let owner = Jmap::connect(&ada).await;
    let drafts = owner.mailbox("drafts").await;
    let id = owner.create(&email(&drafts, "Tea")).await;
    let submission = json!({ "identityId": owner.account, "emailId": id });
    let args = json!({ "create": { "s": submission } });

    let refused = limited(&ada, &json!({ "send": "list", "sendTo": [] })).await;
    let response = refused.call("EmailSubmission/set", args.clone()).await;
    let error = &response["notCreated"]["s"];
    assert_eq!(error["type"], "forbiddenToSend", "{response}");

    let held = json!({ "send": "list", "sendTo": [], "onDenied": "hold" });
    let held = limited(&ada, &held).await;
    let response = held.call("EmailSubmission/set", args).await;
    let created = &response["created"]["s"];
    assert_eq!(created["undoStatus"], "pending", "{response}");
    assert_eq!(grace.messages("INBOX").await.len(), 0);

    let holds = ada.send("GET /api/v1/profile/holds").await.succeeds(200);
    let waiting = &holds["holds"][0];
    let path = format!("/api/v1/profile/holds/{}/approve", text(&waiting["id"]));
    let approved = ada.post(&path, &json!({ "hash": waiting["hash"] })).await;
    approved.succeeds(200);
    grace.wait_for_message("Tea").await;
    // No copy is filed, and the draft stays.
    assert_eq!(ada.messages("Sent").await.len(), 0);
    assert_eq!(ada.messages("Drafts").await.len(), 1);
}
