//! Uploads, downloads, imports and parsed messages.

use latchmail_sdk::testing::{Letter, Service};
use serde_json::{Value, json};

use super::client::{ACCOUNT, call, create, error, mailbox, service};

const MESSAGE: &str = "From: Bo <bo@example.test>\r\nSubject: Tea\r\n\
    Content-Type: text/plain\r\n\r\nHello\r\n";

fn upload(service: &Service, media: &str, bytes: &str) -> Value {
    let path = format!("/jmap/upload/{ACCOUNT}");
    let headers = [("content-type", media)];
    service
        .request("POST", &path, &headers, bytes.into())
        .succeeds(201)
}

#[test]
fn an_upload_is_downloaded_again() {
    let service = service();
    let stored = upload(&service, "text/plain; charset=utf-8", "abc");
    assert_eq!(
        (&stored["size"], &stored["accountId"]),
        (&json!(3), &json!(ACCOUNT))
    );
    assert_eq!(stored["type"], "text/plain; charset=utf-8");
    let blob = stored["blobId"].as_str().unwrap();
    for (accept, media) in [
        ("text%2Fplain", "text/plain"),
        ("text%2Fhtml", "application/octet-stream"),
        ("x", "application/octet-stream"),
    ] {
        let path = format!("/jmap/download/{ACCOUNT}/{blob}/a.txt?accept={accept}");
        let response = service.get(&path);
        assert_eq!((response.status, &response.body[..]), (200, &b"abc"[..]));
        assert_eq!(response.header("content-type"), Some(media));
        let disposition = response.header("content-disposition").unwrap();
        assert!(disposition.starts_with("attachment"), "{disposition}");
    }
    for path in [
        format!("/jmap/download/{ACCOUNT}/Unone/a"),
        format!("/jmap/download/{ACCOUNT}/x/a"),
        format!("/jmap/download/Ax/{blob}/a"),
    ] {
        assert_eq!(service.get(&path).status, 404, "{path}");
    }
    assert_eq!(service.post("/jmap/upload/Ax", &json!({})).status, 404);
}

#[test]
fn an_uploaded_message_is_parsed_and_imported() {
    let service = service();
    let blob = upload(&service, "message/rfc822", MESSAGE)["blobId"].take();
    let args = json!({
        "blobIds": [blob, "Unone", "M99"],
        "properties": ["subject", "from", "textBody", "bodyValues", "size"],
        "bodyProperties": ["partId"],
        "fetchTextBodyValues": true,
    });
    let parsed = call(&service, "Email/parse", args);
    assert_eq!(parsed["notFound"], json!(["Unone", "M99"]));
    let email = &parsed["parsed"][blob.as_str().unwrap()];
    assert_eq!(email["subject"], "Tea");
    assert_eq!(email["size"], MESSAGE.len());
    assert_eq!(email["textBody"], json!([{ "partId": "1" }]));
    assert_eq!(email["bodyValues"]["1"]["value"], "Hello\n");

    let archive = mailbox(&service, "archive");
    let import = json!({
        "blobId": blob,
        "mailboxIds": { archive.as_str(): true },
        "keywords": { "$seen": true },
        "receivedAt": "2026-01-02T03:04:05Z",
    });
    let missing = json!({ "blobId": "Unone", "mailboxIds": { archive.as_str(): true } });
    let args = json!({ "emails": { "a": import, "b": missing } });
    let imported = call(&service, "Email/import", args);
    assert_eq!(imported["notCreated"]["b"]["type"], "blobNotFound");
    let id = imported["created"]["a"]["id"].clone();
    let found = call(&service, "Email/get", json!({ "ids": [id] }))["list"][0].take();
    assert_eq!(found["receivedAt"], "2026-01-02T03:04:05Z");
    assert_eq!(found["mailboxIds"], json!({ archive: true }));
    assert_eq!(found["subject"], "Tea");
}

#[test]
fn an_attachment_is_downloaded_as_it_was_uploaded() {
    let service = service();
    let blob = upload(&service, "image/png", "\u{0}\u{1}png")["blobId"].take();
    let email = json!({
        "mailboxIds": { mailbox(&service, "drafts"): true },
        "bodyValues": { "t": { "value": "see" } },
        "textBody": [{ "partId": "t" }],
        "attachments": [{ "blobId": blob, "type": "image/png", "name": "caf\u{e9}.png" }],
    });
    let created = create(&service, email)["created"]["e"]["id"].take();
    let args = json!({ "ids": [created], "properties": ["attachments"] });
    let found = call(&service, "Email/get", args)["list"][0]["attachments"][0].take();
    assert_eq!(found["name"], "caf\u{e9}.png");
    assert_eq!(
        (&found["size"], &found["type"]),
        (&json!(5), &json!("image/png"))
    );
    let blob = found["blobId"].as_str().unwrap();
    let response = service.get(&format!("/jmap/download/{ACCOUNT}/{blob}/a.png"));
    assert_eq!(response.body, b"\0\x01png");
}

#[test]
fn there_is_no_other_account_to_copy_from() {
    let service = service();
    service.host.deliver(Letter::from("bo@example.test"));
    for name in ["Email/copy", "Blob/copy"] {
        let args = json!({ "fromAccountId": "Ax" });
        assert_eq!(error(&service, name, args), "fromAccountNotFound");
        let args = json!({ "fromAccountId": ACCOUNT });
        assert_eq!(error(&service, name, args), "invalidArguments");
    }
}
