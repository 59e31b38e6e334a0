//! Attachments that are already on the server: uploads, attachments of messages, and messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::{Person, Response, Service, imap, random_bytes};
use serde_json::{Value, json};

use super::attachments::file;
use super::{SEND, assert_well_formed, found, mail, send_mail, wait_for_mail, with};

const UPLOADS: &str = "/api/v1/mail/uploads";
const MIB: usize = 1024 * 1024;

/// Uploads a file with a bearer token.
async fn upload_with(service: &Service, token: &str, query: &str, bytes: Vec<u8>) -> Response {
    let request = service.request(&format!("POST {UPLOADS}{query}"));
    let request = request
        .bearer_auth(token)
        .header("content-type", "Text/CSV; charset=utf-8");
    Response::of(request.body(bytes)).await
}

async fn upload(person: &Person<'_>, query: &str, bytes: Vec<u8>) -> Response {
    upload_with(person.service, &person.access, query, bytes).await
}

/// Returns a mail with these attachments.
fn with_files(subject: &str, files: &Value) -> Value {
    with(mail(subject), "attachments", files.clone())
}

async fn download(person: &Person<'_>, message: &Value, index: usize) -> Vec<u8> {
    let uid = &message["uid"];
    let line = format!("GET /api/v1/mail/messages/{uid}/attachments/{index}");
    let response = person.send(&line).await;
    assert_eq!(response.status, 200, "{}", response.json);
    response.body.clone()
}

#[tokio::test]
async fn an_upload_is_attached_by_its_account_until_it_expires() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let bytes = random_bytes(3 * MIB + 7);
    let uploaded = upload(&ada, "?filename=%C3%BC.csv", bytes.clone())
        .await
        .succeeds(201);
    assert_eq!(uploaded["filename"], "ü.csv");
    assert_eq!(uploaded["contentType"], "text/csv");
    assert_eq!(uploaded["size"], bytes.len());
    let id = &uploaded["uploadId"];
    let files =
        json!([{ "uploadId": id }, { "uploadId": id, "filename": "b", "contentType": "a/b" }]);
    for _ in 0..2 {
        let sent = send_mail(&ada, &with_files("uploaded", &files)).await;
        let received = wait_for_mail(&bob, &sent).await;
        assert_eq!(received["attachments"][0]["filename"], "ü.csv");
        assert_eq!(received["attachments"][1]["contentType"], "a/b");
        assert!(download(&bob, &received, 0).await == bytes);
        assert!(download(&bob, &received, 1).await == bytes);
    }
    // The upload of another account, and the id of no upload.
    for id in [id.clone(), json!("unknown")] {
        let request = with(
            with_files("foreign", &json!([{ "uploadId": id }])),
            "from",
            &*bob.address,
        );
        bob.post(SEND, &request)
            .await
            .fails(404, "Upload not found");
    }
    for query in ["", "?filename=", "?filename=a%0Ab"] {
        assert_eq!(
            upload(&ada, query, b"a".to_vec()).await.status,
            400,
            "{query}"
        );
    }
    let too_large = upload(&ada, "?filename=a", vec![0; 25 * MIB + 1]).await;
    assert_eq!(too_large.status, 413);
    // The limit of the account. The uploads above count.
    for _ in 0..3 {
        upload(&ada, "?filename=a", vec![0; 25 * MIB])
            .await
            .succeeds(201);
    }
    let full = upload(&ada, "?filename=a", vec![0; 25 * MIB]).await;
    full.fails(413, "The uploads of the account exceed 100 MB");
    upload(&bob, "?filename=a", b"a".to_vec())
        .await
        .succeeds(201);
    let reader = ada.token(&["mail:read", "mail:write"]).await;
    let reader = reader["token"].as_str().unwrap();
    assert_eq!(
        upload_with(&service, reader, "?filename=a", b"a".to_vec())
            .await
            .status,
        403
    );
    let sender = ada.token(&["mail:send"]).await;
    let sender = sender["token"].as_str().unwrap();
    upload_with(&service, sender, "?filename=a", b"a".to_vec())
        .await
        .succeeds(201);
    // The message is larger than 25 MB although each upload is smaller.
    let large = json!(vec![json!({ "uploadId": id }); 9]);
    let response = ada.post(SEND, &with_files("too large", &large)).await;
    response.fails(413, "Message exceeds the 25 MB limit");
}

#[tokio::test]
async fn a_message_and_its_attachment_are_forwarded_without_a_download() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let bytes = random_bytes(12 * MIB);
    let large = with_files(
        "large",
        &json!([file("large.bin", "application/x-large", &bytes)]),
    );
    let sent = send_mail(
        &bob,
        &with(with(large, "from", &*bob.address), "to", &*ada.address),
    )
    .await;
    let uid = wait_for_mail(&ada, &sent).await["uid"].clone();
    let part = json!([{ "uid": uid, "index": 0, "contentId": "a@b", "inline": true }]);
    let sent = send_mail(&ada, &with_files("a part", &part)).await;
    let received = wait_for_mail(&bob, &sent).await;
    assert_eq!(received["attachments"][0]["filename"], "large.bin");
    assert_eq!(
        received["attachments"][0]["contentType"],
        "application/x-large"
    );
    assert!(download(&bob, &received, 0).await == bytes);
    let request = with_files("a message", &json!([{ "uid": uid }]));
    let sent = send_mail(&ada, &request).await;
    let received = wait_for_mail(&bob, &sent).await;
    assert_eq!(received["attachments"][0]["filename"], "large.eml");
    assert_eq!(received["attachments"][0]["contentType"], "message/rfc822");
    let mut client = imap(&ada).await;
    let original = latchmail_tests::stored_messages(&mut client, "INBOX")
        .await
        .remove(0);
    assert!(download(&bob, &received, 0).await == original.bytes);

    // An 8-bit message is not encoded (RFC 2046, section 5.2.1), and multiparts around it have its
    // encoding.
    let text = "From: a@outside.test\nSubject: =?utf-8?Q?Gr=C3=BC=C3=9Fe/2?=\nContent-Type: text/plain; charset=utf-8\n\
        Content-Transfer-Encoding: 8bit\n\nschöne Grüße\n";
    ada.receive(text).await;
    let uid = ada.uid_of("INBOX", "Grüße/2").await;
    let sent = send_mail(&ada, &with_files("8 bits", &json!([{ "uid": uid }]))).await;
    let received = wait_for_mail(&bob, &sent).await;
    assert_eq!(received["attachments"][0]["filename"], "Grüße 2.eml");
    let stored = found(&mut imap(&bob).await, "INBOX", &sent).await;
    assert_eq!(
        stored.header("content-transfer-encoding").as_deref(),
        Some("8bit")
    );
    assert_well_formed(&stored);

    for (source, text) in [
        (json!({ "uid": uid, "index": 0 }), "Attachment not found"),
        (json!({ "uid": 999_999_999 }), "Message not found"),
        (
            json!({ "uid": 999_999_999, "index": 0 }),
            "Attachment not found",
        ),
    ] {
        ada.post(SEND, &with_files("missing", &json!([source])))
            .await
            .fails(404, text);
    }
    // The messages of other accounts do not exist.
    let foreign = with(
        with_files("foreign", &json!([{ "uid": uid }])),
        "from",
        &*bob.address,
    );
    let own = bob.uids("INBOX").await;
    if !own.contains(&uid) {
        bob.post(SEND, &foreign)
            .await
            .fails(404, "Message not found");
    }
    // A token that can only send cannot mail the mailbox to its client.
    let token = ada.token(&["mail:send"]).await;
    for source in [json!({ "uid": uid }), json!({ "uid": uid, "index": 0 })] {
        let request = service.request(&format!("POST {SEND}"));
        let request = request.bearer_auth(token["token"].as_str().unwrap());
        let body = with_files("by a token", &json!([source]));
        let response = Response::of_json(request, &body).await;
        response.fails(403, "This credential is missing the \"mail:read\" scope");
    }
    let content = STANDARD.encode(b"x");
    for source in [
        json!({}),
        json!({ "uid": uid, "uploadId": "a" }),
        json!({ "uid": uid, "filename": "a", "content": content }),
        json!({ "uploadId": "a", "index": 0 }),
        json!({ "uid": 0 }),
        json!({ "uid": uid, "contentId": "<a>" }),
    ] {
        let response = ada.post(SEND, &with_files("bad", &json!([source]))).await;
        assert_eq!(response.status, 400, "{source}");
    }
}
