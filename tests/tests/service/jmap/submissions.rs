//! Emails that are sent over JMAP.

use serde_json::{Value, json};

use super::{Jmap, email, service, text};

/// Returns the calls that send an email and then move it to Sent.
async fn submission(client: &Jmap<'_>, id: &str, envelope: Value) -> Value {
    let sent = client.mailbox("sent").await;
    json!([["EmailSubmission/set", {
        "accountId": client.account,
        "create": { "s": {
            "identityId": client.account,
            "emailId": id,
            "envelope": envelope,
        } },
        "onSuccessUpdateEmail": {
            "#s": { "mailboxIds": { sent: true }, "keywords/$draft": null },
        },
    }, "c"]])
}

#[tokio::test]
async fn a_draft_is_sent_once_and_moved_to_sent() {
    let service = service().await;
    let ada = service.person("ada").await;
    let grace = service.person("grace").await;
    let client = Jmap::connect(&ada).await;
    let mut draft = email(&client.mailbox("drafts").await, "Tea");
    draft["keywords"] = json!({ "$draft": true });
    draft["bcc"] = json!([{ "email": "ada@first.test" }]);
    let id = client.create(&draft).await;
    let calls = submission(&client, &id, Value::Null).await;
    let responses = client.calls(calls).await;
    assert_eq!(
        responses[0][1]["created"]["s"]["undoStatus"], "final",
        "{responses:?}"
    );
    assert_eq!(responses[1][0], "Email/set");
    grace.wait_for_message("Tea").await;
    ada.wait_for_message("Tea").await;
    let received = grace.newest().await;
    assert!(received.get("bcc").is_none_or(|bcc| *bcc == json!([])));
    let uid = received["uid"].to_string();
    let raw = Jmap::connect(&grace)
        .await
        .download(&format!("M{uid}"), "a")
        .await;
    let raw = String::from_utf8(raw.body).unwrap().to_lowercase();
    assert!(!raw.contains("\nbcc:"), "{raw}");
    assert_eq!(ada.messages("Drafts").await.len(), 0);
    let sent = ada.messages("Sent").await;
    assert_eq!((sent.len(), &sent[0]["uid"].to_string()), (1, &id));
    assert_eq!(grace.messages("INBOX").await.len(), 1);
    let all = client.call("EmailSubmission/get", json!({})).await;
    assert_eq!(all["list"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_held_message_is_cancelled() {
    let service = service().await;
    let ada = service.person("ada").await;
    let client = Jmap::connect(&ada).await;
    let id = client
        .create(&email(&client.mailbox("drafts").await, "Later"))
        .await;
    let envelope = json!({
        "mailFrom": { "email": ada.address, "parameters": { "HOLDFOR": "86400" } },
        "rcptTo": [{ "email": "grace@first.test" }],
    });
    let responses = client.calls(submission(&client, &id, envelope).await).await;
    let created = &responses[0][1]["created"]["s"];
    assert_eq!(created["undoStatus"], "pending", "{responses:?}");
    let entries = ada.send("GET /api/v1/mail/outbox").await.succeeds(200);
    assert_eq!(
        entries["entries"].as_array().map(Vec::len),
        Some(1),
        "{entries}"
    );
    let update = json!({ text(&created["id"]): { "undoStatus": "canceled" } });
    let update = json!({ "update": update });
    let cancelled = client.call("EmailSubmission/set", update).await;
    assert!(cancelled["notUpdated"].is_null(), "{cancelled}");
}

#[tokio::test]
async fn nobody_sends_as_another() {
    let service = service().await;
    let ada = service.person("ada").await;
    service.person("grace").await;
    let client = Jmap::connect(&ada).await;
    let drafts = client.mailbox("drafts").await;
    let mut forged = email(&drafts, "Forged");
    forged["from"] = json!([{ "email": "grace@first.test" }]);
    let forged = client.create(&forged).await;
    let own = client.create(&email(&drafts, "Own")).await;
    let envelope = json!({
        "mailFrom": { "email": "grace@first.test" },
        "rcptTo": [{ "email": "grace@first.test" }],
    });
    for (id, envelope) in [(&forged, Value::Null), (&own, envelope)] {
        let responses = client.calls(submission(&client, id, envelope).await).await;
        let error = &responses[0][1]["notCreated"]["s"]["type"];
        assert_eq!((error, responses.len()), (&json!("forbiddenFrom"), 1));
    }
    assert_eq!(ada.messages("Drafts").await.len(), 2);
}
