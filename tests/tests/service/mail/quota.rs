//! The quota of a mailbox, which the mail server enforces.

use latchmail_tests::{DOMAIN, Imap, Response, Service, imap};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

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

/// Returns the mail server's reply to RCPT from another server. The message would have this size.
pub(crate) async fn rcpt(service: &Service, to: &str, bytes: usize) -> String {
    let stream = TcpStream::connect(service.mail().smtp).await.unwrap();
    let mut stream = BufReader::new(stream);
    let mut last = String::new();
    let from = format!("MAIL FROM:<sender@outside.test> SIZE={bytes}");
    for line in ["", "EHLO outside.test", &from, &format!("RCPT TO:<{to}>")] {
        if !line.is_empty() {
            let line = format!("{line}\r\n");
            stream.write_all(line.as_bytes()).await.unwrap();
        }
        loop {
            last.clear();
            assert!(stream.read_line(&mut last).await.unwrap() > 0, "hung up");
            if last.as_bytes()[3] == b' ' {
                break;
            }
        }
    }
    last
}

#[tokio::test(flavor = "multi_thread")]
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
    append(&mut client, 60 * 1024).await.unwrap_err();
    let import = "/api/v1/mail/folders/INBOX/messages";
    let refused = ada.post_raw(import, message(60 * 1024)).await;
    refused.fails(507, "The mailbox is full");
    let uid = ada.uids("INBOX").await[0];
    let to = json!({ "destination": "Archive" });
    let copy = format!("/api/v1/mail/messages/{uid}/copy");
    ada.post(&copy, &to).await.fails(507, "The mailbox is full");
    let bulk = json!({ "uids": [uid], "destination": "Archive" });
    let refused = ada.post("/api/v1/mail/messages/bulk/copy", &bulk).await;
    refused.fails(507, "The mailbox is full");
    assert!(ada.uids("Archive").await.is_empty());
    assert_eq!(ada.uids("INBOX").await, [uid]);
    // Mail from another server is refused at RCPT, so that server informs the sender.
    let shop = json!({ "domain": DOMAIN, "name": "shop" });
    let shop = ada.post("/api/v1/aliases", &shop).await.succeeds(201);
    for to in [ada.address.as_str(), shop["alias"].as_str().unwrap()] {
        let refused = rcpt(&service, to, 60 * 1024).await;
        assert!(refused.starts_with("552 5.2.2"), "{to}: {refused}");
        let accepted = rcpt(&service, to, 1024).await;
        assert!(accepted.starts_with("250"), "{to}: {accepted}");
    }
    ada.receive("From: grace@outside.test\nSubject: small\n\nText.")
        .await;
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

    // A draft beyond the quota is not stored, and the replaced draft stays.
    let large = json!({ "text": "text ".repeat(20 * 1024) });
    let drafts = "/api/v1/mail/drafts";
    let refused = ada.post(drafts, &large).await;
    refused.fails(507, "The mailbox is full");
    let draft = ada.post(drafts, &json!({ "text": "small" })).await;
    let draft = draft.succeeds(201);
    let path = format!("{drafts}/{}", draft["id"].as_str().unwrap());
    let request = service.request(&format!("PUT {path}"));
    let request = request.bearer_auth(&ada.access).header("if-match", "*");
    let refused = Response::of_json(request, &large).await;
    refused.fails(507, "The mailbox is full");
    let kept = ada.send(&format!("GET {path}")).await.succeeds(200);
    assert_eq!(kept, draft);

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
