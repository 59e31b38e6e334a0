//! Rules in code.

use latchmail_tests::{Person, Service, wait_until};
use serde_json::json;

use super::{deliver, enable, settings, state};

/// The path of the sender's folder in a URL.
const CLIENT: &str = "Clients%2Foutside.test";

async fn start() -> Service {
    let scopes = "modules.rules.scopes = ['mail:read', 'mail:write']";
    Service::with_mail_and(&settings("rules", "'mailbox'", scopes)).await
}

/// Creates the folders into which the rules file mail.
async fn create_folders(person: &Person<'_>) {
    for path in ["Lists", "Clients/outside.test"] {
        let body = json!({ "path": path });
        let created = person.post("/api/v1/mail/folders", &body).await;
        created.succeeds(201);
    }
}

/// Delivers an invoice, a message of a mailing list, and a message without a rule.
async fn deliver_all(person: &Person<'_>) {
    for header in [
        "From: Grace <grace@outside.test>\nSubject: Your invoice 17",
        "From: news@elsewhere.test\nSubject: Issue 5\nList-Id: <letters.elsewhere.test>",
        "From: eve@elsewhere.test\nSubject: Hello",
    ] {
        deliver(person, header).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arriving_mail_is_labelled_and_filed() {
    let service = start().await;
    let ada = service.person("ada").await;
    create_folders(&ada).await;
    enable(&ada, "rules").await;
    deliver_all(&ada).await;
    wait_until("the messages are filed", async || {
        let totals = (
            ada.total(CLIENT).await,
            ada.total("Lists").await,
            ada.total("INBOX").await,
        );
        totals == (1, 1, 1)
    })
    .await;
    let invoice = &ada.messages(CLIENT).await[0];
    assert_eq!(invoice["subject"], "Your invoice 17");
    assert_eq!(invoice["flags"], json!(["invoice"]));
    assert_eq!(ada.messages("INBOX").await[0]["subject"], "Hello");
    assert_eq!(state(&ada).await["paused"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_shows_what_the_rules_would_do_with_past_mail() {
    let service = start().await;
    let ada = service.person("ada").await;
    create_folders(&ada).await;
    deliver_all(&ada).await;
    wait_until("the messages have arrived", async || {
        ada.total("INBOX").await == 3
    })
    .await;
    enable(&ada, "rules").await;
    let command = format!("module preview rules --account {} --last 10", ada.address);
    let preview = service.operator(&command, "").await.succeeds();
    assert_eq!(preview.matches("in INBOX: done").count(), 3, "{preview}");
    for change in [
        "add the flags invoice of message",
        "to \"Clients/outside.test\"",
        "to \"Lists\"",
    ] {
        assert_eq!(preview.matches(change).count(), 1, "{preview}");
    }
    assert_eq!(ada.total("INBOX").await, 3);
}
