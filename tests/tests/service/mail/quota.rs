//! The quota of a mailbox, which the mail server enforces.

use latchmail_tests::{DOMAIN, Imap, Response, Service, imap};
use lettre::address::Envelope;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use serde_json::json;

const LIMIT: u64 = 200 * 1024;

fn message(bytes: usize) -> String {
    let line = format!("{}\r\n", "x".repeat(70));
    format!(
        "From: grace@outside.test\r\nSubject: large\r\n\r\n{}",
        line.repeat(bytes / line.len())
    )
}

async fn append(client: &mut Imap, bytes: usize) -> Result<(), String> {
    let appended = client.append("INBOX", None, None, message(bytes)).await;
    appended.map_err(|error| error.to_string())
}

/// Sends a message to an address from another server. Returns the server's refusal.
async fn deliver(service: &Service, to: &str, bytes: usize) -> Result<(), String> {
    let sender = "sender@outside.test".parse().unwrap();
    let envelope = Envelope::new(Some(sender), vec![to.parse().unwrap()]).unwrap();
    let smtp = service.mail().smtp;
    let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(smtp.ip().to_string());
    let transport = transport.port(smtp.port()).build();
    let sent = transport
        .send_raw(&envelope, message(bytes).as_bytes())
        .await;
    sent.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_full_mailbox_takes_no_message_until_there_is_space() {
    let settings = format!("[plans.default]\nstorage = {LIMIT}\n");
    let service = Service::with_mail_and(&settings).await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let quota = ada.send("GET /api/v1/mail/quota").await.succeeds(200);
    let none = json!({ "used": null, "limit": null });
    assert_eq!(quota["storage"], json!({ "used": 0, "limit": LIMIT }));
    assert_eq!(quota["messages"], none);
    append(&mut client, 150 * 1024).await.unwrap();
    let quota = ada.send("GET /api/v1/mail/quota").await.succeeds(200);
    let used = quota["storage"]["used"].as_u64().unwrap();
    assert!((150 * 1024..160 * 1024).contains(&used), "{quota}");
    let full = append(&mut client, 60 * 1024).await.unwrap_err();
    assert!(full.to_uppercase().contains("OVERQUOTA"), "{full}");
    // Mail from another server is refused at RCPT, so that server informs the sender.
    let shop = json!({ "domain": DOMAIN, "name": "shop" });
    let shop = ada.post("/api/v1/aliases", &shop).await.succeeds(201);
    for to in [ada.address.as_str(), shop["alias"].as_str().unwrap()] {
        let refused = deliver(&service, to, 60 * 1024).await.unwrap_err();
        assert!(refused.contains("The mailbox is full"), "{to}: {refused}");
    }
    deliver(&service, &ada.address, 1024).await.unwrap();
    ada.wait_for_message("large").await;
    // A folder with its messages can be moved to Trash, which needs no space.
    client.create("Work").await.unwrap();
    client.select("INBOX").await.unwrap();
    client.uid_mv("1", "Work").await.unwrap();
    let trash = ada
        .send("DELETE /api/v1/mail/folders/Work?messages=trash")
        .await;
    trash.succeeds(200);
    let uids = ada.uids("Trash").await;
    assert_eq!(uids.len(), 1);
    ada.delete(uids[0]).await.succeeds(200);
    let quota = ada.send("GET /api/v1/mail/quota").await.succeeds(200);
    assert!(
        quota["storage"]["used"].as_u64().unwrap() < 10 * 1024,
        "{quota}"
    );
    append(&mut client, 150 * 1024).await.unwrap();

    for (scope, status) in [
        ("mail:read", 200),
        ("mail:write", 403),
        ("aliases:read", 403),
    ] {
        let token = ada.token(&[scope]).await;
        let request = service.request("GET /api/v1/mail/quota");
        let request = request.bearer_auth(token["token"].as_str().unwrap());
        assert_eq!(Response::of(request).await.status, status, "{scope}");
    }
}
