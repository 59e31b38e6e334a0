//! Stored messages keep their bytes: an import stores what was sent, and `raw` returns what the
//! mail server stores.

use latchmail_tests::{Person, Response, Service, corpus, imap, stored_messages};
use serde_json::json;

async fn import(person: &Person<'_>, message: &[u8]) -> Response {
    let line = "POST /api/v1/mail/folders/Imported/messages";
    let request = person.service.request(line).bearer_auth(&person.access);
    let request = request.header("content-type", "message/rfc822");
    Response::of(request.body(message.to_vec())).await
}

async fn raw(person: &Person<'_>, uid: u64) -> Vec<u8> {
    let line = format!("GET /api/v1/mail/messages/{uid}/raw");
    let response = person.send(&line).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.headers["content-type"], "message/rfc822");
    let length = response.body.len().to_string();
    assert_eq!(response.headers["content-length"], length);
    response.body
}

/// Returns the messages of the corpus, and the same messages as attachments of other messages.
fn messages() -> Vec<(String, Vec<u8>)> {
    let samples = corpus::samples();
    let mut messages = Vec::new();
    for sample in samples {
        let head = "From: Ada <ada@outside.test>\r\nSubject: attached\r\nMIME-Version: 1.0\r\n\
                    Content-Type: multipart/mixed; boundary=outermost\r\n\r\n--outermost\r\n\
                    Content-Type: message/rfc822\r\n\r\n";
        let tail: &[u8] = b"\r\n--outermost--\r\n";
        let attached = [head.as_bytes(), &sample.bytes, tail].concat();
        messages.push((format!("{} attached", sample.name), attached));
        messages.push((sample.name, sample.bytes));
    }
    messages
}

/// Returns whether each line feed follows a carriage return. The mail server stores other messages
/// with CR LF.
fn has_lines_of_mail(message: &[u8]) -> bool {
    let pairs = message.windows(2);
    let has_bare = message.first() == Some(&b'\n')
        || pairs
            .into_iter()
            .any(|pair| pair[1] == b'\n' && pair[0] != b'\r');
    !has_bare
}

fn begins_with_a_field(message: &[u8]) -> bool {
    let line = message.split(|b| *b == b'\n').next().unwrap();
    let name = line.split(|b| *b == b':').next().unwrap();
    let name = name.trim_ascii_end();
    name.len() < line.len() && !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
}

#[tokio::test]
async fn imported_messages_of_three_hundred_shapes_keep_their_bytes() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let folder = json!({ "path": "Imported" });
    ada.post("/api/v1/mail/folders", &folder)
        .await
        .succeeds(201);
    let (mut sent, mut returned) = (Vec::new(), Vec::new());
    for (name, bytes) in messages() {
        let response = import(&ada, &bytes).await;
        if bytes.contains(&0) || !begins_with_a_field(&bytes) {
            assert_eq!(response.status, 400, "{name}");
            continue;
        }
        let uid = response.succeeds(201)["uid"].as_u64().unwrap();
        let raw = raw(&ada, uid).await;
        if has_lines_of_mail(&bytes) {
            assert!(raw == bytes, "{name}");
        }
        returned.push(raw);
        sent.push(name);
    }
    assert!(sent.len() >= 300, "{}", sent.len());
    let mut client = imap(&ada).await;
    let stored = stored_messages(&mut client, "Imported").await;
    assert_eq!(stored.len(), sent.len());
    for ((stored, returned), name) in stored.iter().zip(returned).zip(sent) {
        assert!(stored.bytes == returned, "{name}");
    }
}
