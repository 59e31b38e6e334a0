//! The attachments of a message.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::{Person, RICH_MESSAGE, Service, expunge_all, imap, random_bytes};
use serde_json::json;

#[tokio::test]
async fn an_attachment_is_downloaded_unchanged_with_the_headers_of_a_file() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receive(RICH_MESSAGE).await;
    let uid = ada.newest().await["uid"].as_u64().unwrap();
    let path = |index: &str| format!("GET /api/v1/mail/messages/{uid}/attachments/{index}");
    let answer = ada.send(&path("0")).await;
    assert_eq!(answer.status, 200, "{}", answer.json);
    assert_eq!(answer.body, b"%PDF-1.4");
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("content-length", "8"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "private, no-store"),
        (
            "content-disposition",
            "attachment; filename=\"r_sum_.pdf\"; filename*=UTF-8''r%C3%A9sum%C3%A9.pdf",
        ),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let nested = ada.send(&path("1")).await;
    assert_eq!(nested.body, b"Subject: inner\r\n\r\nnested");
    // HEAD returns the headers and no bytes.
    let head = ada.send(&path("0").replace("GET", "HEAD")).await;
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("8"))
    );
    assert!(head.body.is_empty());
    let hinted = ada.send(&format!("{}?folder=Trash", path("0"))).await;
    assert_eq!(hinted.body, b"%PDF-1.4");
}

#[tokio::test]
async fn an_attachment_is_described_as_binary_data() {
    let service = Service::with_mail().await;
    let description = service.send("GET /api/openapi.json").await.succeeds(200);
    let path = "/api/v1/mail/messages/{uid}/attachments/{index}";
    let content = &description["paths"][path]["get"]["responses"]["200"]["content"];
    let schema = &content["application/octet-stream"]["schema"];
    assert_eq!(schema["type"], "string");
    assert_eq!(schema["format"], "binary");
}

#[tokio::test]
async fn an_unknown_attachment_is_refused_with_the_specified_text() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    ada.receive(RICH_MESSAGE).await;
    let uid = ada.newest().await["uid"].as_u64().unwrap();
    for (path, status, text) in [
        (format!("{uid}/attachments/2"), 404, "Attachment not found"),
        (
            format!("{uid}/attachments/4294967296"),
            404,
            "Attachment not found",
        ),
        (
            format!("{}/attachments/0", uid + 1),
            404,
            "Message not found",
        ),
        (
            format!("{uid}/attachments/-1"),
            400,
            "Invalid attachment index",
        ),
        (
            format!("{uid}/attachments/0x0"),
            400,
            "Invalid attachment index",
        ),
        ("0/attachments/0".into(), 400, "Invalid message UID"),
        ("one/attachments/zero".into(), 400, "Invalid message UID"),
    ] {
        ada.send(&format!("GET /api/v1/mail/messages/{path}"))
            .await
            .fails(status, text);
    }
    let bob = service.person("bob").await;
    bob.send(&format!("GET /api/v1/mail/messages/{uid}/attachments/0"))
        .await
        .fails(404, "Message not found");
    service
        .send(&format!("GET /api/v1/mail/messages/{uid}/attachments/0"))
        .await
        .fails(401, "Missing or invalid Authorization header");
}

/// Returns a message with a text and a file with these bytes.
fn with_a_file(bytes: &[u8]) -> Vec<u8> {
    let mut message = b"From: grace@outside.test\r\nTo: ada@first.test\r\nSubject: A file\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nHere it is.\r\n--b\r\n\
        Content-Type: video/mp4; name=film.mp4\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        .to_vec();
    for line in STANDARD.encode(bytes).as_bytes().chunks(76) {
        message.extend_from_slice(line);
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"--b--\r\n");
    message
}

/// Puts a message into the inbox as another client does, and returns its number.
async fn append_message(person: &Person<'_>, message: &[u8]) -> u64 {
    imap(person)
        .await
        .append("INBOX", None, None, message)
        .await
        .unwrap();
    person.messages("INBOX").await[0]["uid"].as_u64().unwrap()
}

#[tokio::test]
async fn eight_concurrent_downloads_of_twenty_megabytes_are_complete_for_slow_readers_too() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let film = random_bytes(20 * 1024 * 1024);
    let uid = append_message(&ada, &with_a_file(&film)).await;
    let path = format!("GET /api/v1/mail/messages/{uid}/attachments/0");
    let answer = ada.send(&path).await;
    assert_eq!(answer.header("content-length"), Some("20971520"));
    assert!(answer.body == film, "the file has changed");
    let downloads = (0..8).map(async |number| {
        let request = service.request(&path).bearer_auth(&ada.access);
        let mut response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let mut film = film.as_slice();
        let mut waited = number % 2 == 0;
        while let Some(piece) = response.chunk().await.unwrap() {
            let rest = film.strip_prefix(&piece[..]);
            film = rest.expect("the file has changed");
            if !waited {
                waited = true;
                // The client is slower than the mail server, so other requests can use the
                // connection.
                assert_eq!(ada.total("INBOX").await, 1);
            }
        }
        assert!(film.is_empty());
    });
    futures_util::future::join_all(downloads).await;
    let detail = ada
        .send(&format!("GET /api/v1/mail/messages/{uid}"))
        .await
        .succeeds(200);
    assert_eq!(detail["text"], "Here it is.");
    assert_eq!(
        detail["attachments"],
        json!([{ "index": 0, "filename": "film.mp4", "contentType": "video/mp4", "size": 20_971_520, "contentId": null, "disposition": "attachment" }])
    );
    assert!(detail.get("truncated").is_none());
}

#[tokio::test]
async fn a_download_of_a_deleted_message_is_complete_or_visibly_incomplete() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let film = random_bytes(20 * 1024 * 1024);
    let uid = append_message(&ada, &with_a_file(&film)).await;
    let path = format!("GET /api/v1/mail/messages/{uid}/attachments/0");
    let request = service.request(&path).bearer_auth(&ada.access);
    let mut response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let mut received = response.chunk().await.unwrap().unwrap().to_vec();
    // The client pauses, so the service has released the mail server by then, unless it was slower
    // still.
    tokio::time::sleep(Duration::from_millis(500)).await;
    expunge_all(&ada).await;
    let ended = loop {
        match response.chunk().await {
            Ok(Some(piece)) => received.extend_from_slice(&piece),
            ended => break ended,
        }
    };
    assert_eq!(
        ended.is_ok(),
        received == film,
        "a part was given for the whole"
    );
    assert!(film.starts_with(&received));
    ada.send(&path).await.fails(404, "Message not found");
}

#[tokio::test]
async fn a_download_stops_within_a_second_when_its_grant_is_suspended_or_ended() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let film = random_bytes(20 * 1024 * 1024);
    let uid = append_message(&ada, &with_a_file(&film)).await;
    let path = format!("GET /api/v1/mail/messages/{uid}/attachments/0");
    for change in ["POST {}/suspend", "DELETE {}"] {
        let [token, other] = [
            ada.token(&["mail:read"]).await,
            ada.token(&["mail:read"]).await,
        ];
        let start = async |token: &serde_json::Value| {
            let secret = token["token"].as_str().unwrap();
            let request = service.request(&path).bearer_auth(secret);
            let mut response = request.send().await.unwrap();
            assert_eq!(response.status(), 200);
            let first = response.chunk().await.unwrap().unwrap();
            (response, first.len())
        };
        let (mut stopped, mut received) = start(&token).await;
        let (mut complete, mut others) = start(&other).await;
        let grant = format!("/api/v1/profile/grants/{}", token["id"].as_str().unwrap());
        ada.send(&change.replace("{}", &grant)).await.succeeds(200);
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The buffers of the connection contain bytes that the service sent before.
        let ended = loop {
            match stopped.chunk().await {
                Ok(Some(piece)) => received += piece.len(),
                ended => break ended,
            }
        };
        assert!(ended.is_err() && received < film.len(), "{received}");
        while let Some(piece) = complete.chunk().await.unwrap() {
            others += piece.len();
        }
        assert_eq!(others, film.len());
        let other = format!(
            "DELETE /api/v1/profile/grants/{}",
            other["id"].as_str().unwrap()
        );
        ada.send(&other).await.succeeds(200);
    }
}
