//! Messages in their stored form, their headers, and several messages at once.

use futures_util::TryStreamExt as _;
use latchmail_tests::{Person, Response, Service, append_message, imap, random_bytes};
use serde_json::{Value, json};

const LETTER: &str = "Received: from mail.outside.test\r\n\tby first.test\r\nFrom: Grace <grace@outside.test>\r\n\
    To: ada@first.test\r\nSubject: =?utf-8?Q?Gr=C3=BC=C3=9Fe=3A_a/b?=\r\nDate: Thu, 19 Nov 2026 11:00:00 +0000\r\n\
    Message-ID: <letter@outside.test>\r\nAuto-Submitted: Auto-Generated; x=y\r\n\
    List-Id: Letters\r\n <letters.outside.test>\r\nList-Unsubscribe: <https://outside.test/u?a=1>,\r\n <mailto:leave@outside.test>\r\n\
    List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\nX-Spam-Status: Yes, score=12.5\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/related; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n<img src=\"cid:a@b\">\r\n\
    --b\r\nContent-Type: image/png\r\nContent-ID: <a@b>\r\n\r\nPNG\r\n\
    --b\r\nContent-Type: image/gif\r\nContent-ID: <c@d>\r\nContent-Disposition: attachment; filename=c.gif\r\n\r\nGIF\r\n--b--\r\n";

/// Puts a message into a folder as another client does, and returns its number.
async fn append(person: &Person<'_>, folder: &str, message: &[u8], subject: &str) -> u64 {
    let stored = imap(person).await.append(folder, None, None, message).await;
    stored.unwrap();
    person.uid_of(folder, subject).await
}

/// Returns the response to a request for a range of a stored message.
async fn range(person: &Person<'_>, uid: u64, range: &str) -> Response {
    let line = format!("GET /api/v1/mail/messages/{uid}/raw");
    let request = person.service.request(&line).bearer_auth(&person.access);
    Response::of(request.header("range", range)).await
}

#[tokio::test]
async fn a_message_is_downloaded_as_the_mail_server_stores_it() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let uid = append(&ada, "INBOX", LETTER.as_bytes(), "Gr\u{fc}\u{df}e: a/b").await;
    let line = format!("GET /api/v1/mail/messages/{uid}/raw");
    let raw = ada.send(&line).await;
    assert_eq!((raw.status, &raw.body[..]), (200, LETTER.as_bytes()));
    let length = LETTER.len().to_string();
    for (name, value) in [
        ("content-type", "message/rfc822"),
        ("content-length", &*length),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "private, no-store"),
        (
            "content-disposition",
            "attachment; filename=\"Gr__e_ a_b.eml\"; filename*=UTF-8''Gr%C3%BC%C3%9Fe_%20a_b.eml",
        ),
    ] {
        assert_eq!(raw.header(name), Some(value), "{name}");
    }
    let part = range(&ada, uid, "bytes=10-19").await;
    assert_eq!(
        (part.status, &part.body[..]),
        (206, &LETTER.as_bytes()[10..20])
    );
    let content_range = format!("bytes 10-19/{length}");
    assert_eq!(part.header("content-range"), Some(&*content_range));
    let beyond = range(&ada, uid, "bytes=100000-").await;
    beyond.fails(416, "The range is outside of the content");
    assert_eq!(
        beyond.header("content-range"),
        Some(&*format!("bytes */{length}"))
    );
    assert_eq!(
        range(&ada, uid, "bytes=0-1,4-5").await.body,
        LETTER.as_bytes()
    );

    // The version of the bytes does not change with the flags.
    let tag = raw.header("etag").unwrap();
    let starred = json!({"action": "add", "flags": ["\\Flagged"]});
    let flag = format!("/api/v1/mail/messages/{uid}/flag");
    assert_eq!(ada.post(&flag, &starred).await.status, 200);
    for (header, sent, status) in [
        ("if-none-match", tag, 304),
        ("if-none-match", "*", 304),
        ("if-none-match", "\"other\"", 200),
        ("if-range", tag, 206),
        ("if-range", "\"other\"", 200),
    ] {
        let request = service.request(&line).bearer_auth(&ada.access);
        let request = request.header(header, sent);
        let response = match header {
            "if-range" => Response::of(request.header("range", "bytes=0-3")).await,
            _ => Response::of(request).await,
        };
        assert_eq!(
            (response.status, response.header("etag")),
            (status, Some(tag)),
            "{header}: {sent}"
        );
        assert!(status != 304 || response.body.is_empty());
    }
    let unflagged = json!({"action": "remove", "flags": ["\\Flagged"]});
    assert_eq!(ada.post(&flag, &unflagged).await.status, 200);

    // The request does not mark the message as read.
    let message = ada.message(uid).await;
    assert_eq!(message["flags"], json!([]));
    let token = ada.token(&["mail:send", "mail:write"]).await;
    let refused = service.with_bearer(&line, token["token"].as_str().unwrap());
    refused
        .await
        .fails(403, "This credential is missing the \"mail:read\" scope");
    let bob = service.person("bob").await;
    bob.send(&line).await.fails(404, "Message not found");
    for uid in ["0", "-1", "x"] {
        let line = format!("GET /api/v1/mail/messages/{uid}/raw");
        ada.send(&line).await.fails(400, "Invalid message UID");
    }
}

#[tokio::test]
async fn a_large_message_is_streamed_and_has_ranges() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut large = b"From: grace@outside.test\r\nSubject: Large\r\n\r\n".to_vec();
    for line in random_bytes(3 * 1024 * 1024).chunks(70) {
        large.extend(line.iter().map(|byte| b'A' + byte % 26));
        large.extend_from_slice(b"\r\n");
    }
    let uid = append(&ada, "INBOX", &large, "Large").await;
    let raw = ada
        .send(&format!("GET /api/v1/mail/messages/{uid}/raw"))
        .await;
    assert!(raw.status == 200 && raw.body == large);
    assert_eq!(
        raw.header("content-length"),
        Some(&*large.len().to_string())
    );
    for (start, end) in [(0, 0), (262_143, 262_145), (2_000_000, 2_999_999)] {
        let part = range(&ada, uid, &format!("bytes={start}-{end}")).await;
        assert!(
            part.status == 206 && part.body == large[start..=end],
            "{start}"
        );
    }
    let end = range(&ada, uid, "bytes=-5").await;
    assert_eq!(end.body, large[large.len() - 5..]);
}

#[tokio::test]
async fn a_message_has_the_data_of_its_header() {
    let service = Service::with_mail_and("inbound.spam_header = 'X-Spam-Status'").await;
    let ada = service.person("ada").await;
    let uid = append(&ada, "INBOX", LETTER.as_bytes(), "Gr\u{fc}\u{df}e: a/b").await;
    let message = ada.message(uid).await;
    let list = json!({
        "id": "letters.outside.test",
        "unsubscribe": ["https://outside.test/u?a=1", "mailto:leave@outside.test"],
        "oneClick": true,
    });
    assert_eq!(message["list"], list);
    assert_eq!(message["autoSubmitted"], "auto-generated");
    // The milter has not marked this message, so its header can be forged.
    assert_eq!(message["spam"], json!({ "verdict": "none", "score": null }));
    let attachments = message["attachments"].as_array().unwrap();
    let found: Vec<_> = attachments
        .iter()
        .map(|one| {
            (
                one["contentId"].as_str().unwrap(),
                one["disposition"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(found, [("a@b", "inline"), ("c@d", "attachment")]);

    let read = async |headers: &str| {
        let line = format!("GET /api/v1/mail/messages/{uid}?headers={headers}");
        ada.send(&line).await
    };
    let all = read("all").await.succeeds(200);
    let all = all["headers"].as_array().unwrap();
    assert_eq!(
        all.len(),
        LETTER
            .split("\r\n\r\n")
            .next()
            .unwrap()
            .matches(": ")
            .count()
    );
    assert_eq!(
        all[0],
        json!({ "name": "Received", "value": "from mail.outside.test by first.test" })
    );
    assert_eq!(
        all[3],
        json!({ "name": "Subject", "value": "Gr\u{fc}\u{df}e: a/b" })
    );
    let some = read("LIST-ID,%20x-missing").await.succeeds(200);
    let expected = json!([{ "name": "List-Id", "value": "Letters <letters.outside.test>" }]);
    assert_eq!(some["headers"], expected);
    for headers in ["", "a,", "a%20b"] {
        read(headers).await.fails(400, "Invalid headers parameter");
    }
}

#[tokio::test]
async fn the_result_of_another_spam_filter_is_read_from_its_header() {
    let settings = "inbound.filter = 'other'\ninbound.spam_header = 'X-Spam-Status'";
    let service = Service::with_mail_and(settings).await;
    let ada = service.person("ada").await;
    let uid = append(&ada, "INBOX", LETTER.as_bytes(), "Gr\u{fc}\u{df}e: a/b").await;
    let expected = json!({ "verdict": "spam", "score": 12.5 });
    assert_eq!(ada.message(uid).await["spam"], expected);
    // The client wrote the header of an imported message.
    let request = service.request("POST /api/v1/mail/folders/INBOX/messages");
    let request = request.bearer_auth(&ada.access).body(LETTER);
    let imported = Response::of(request).await.succeeds(201);
    let message = ada.message(imported["uid"].as_u64().unwrap()).await;
    assert_eq!(message["spam"], json!({ "verdict": "none", "score": null }));
    assert_eq!(ada.message(uid).await["spam"], expected);
}

/// Returns the subjects of the messages in a response.
fn subjects(response: &Value) -> Vec<&str> {
    let messages = response["messages"].as_array().unwrap().iter();
    messages
        .map(|one| one["subject"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn several_messages_are_read_at_once() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("Work").await.unwrap();
    append_message(&mut client, "INBOX", "First").await;
    append_message(&mut client, "INBOX", "Second").await;
    append_message(&mut client, "Work", "Third").await;
    let large = format!(
        "From: grace@outside.test\r\nSubject: Fourth\r\n\r\n{}",
        "large \r\n".repeat(20_000)
    );
    let fourth = append(&ada, "Work", large.as_bytes(), "Fourth").await;
    let first = ada.uid_of("INBOX", "First").await;
    let second = ada.uid_of("INBOX", "Second").await;
    let third = ada.uid_of("Work", "Third").await;
    let read = async |query: &str| {
        let line = format!("GET /api/v1/mail/messages?{query}");
        ada.send(&line).await
    };
    let uids = format!("uids={third},999999,{first},{fourth},{second},{first}");
    let expected = ["Third", "First", "Fourth", "Second"];
    let summaries = read(&uids).await.succeeds(200);
    assert_eq!(subjects(&summaries), expected);
    assert_eq!(summaries["missing"], json!([999_999]));
    let mut one = summaries["messages"][1].clone();
    assert_eq!(
        one.as_object_mut().unwrap().remove("folder"),
        Some(json!("INBOX"))
    );
    assert!(ada.messages("INBOX").await.contains(&one));
    let details = read(&format!("{uids}&view=detail")).await.succeeds(200);
    assert_eq!(subjects(&details), expected);
    for (detail, folder) in details["messages"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["Work", "INBOX", "Work", "INBOX"])
    {
        let mut detail = detail.clone();
        assert_eq!(
            detail.as_object_mut().unwrap().remove("folder"),
            Some(json!(folder))
        );
        assert_eq!(detail, ada.message(detail["uid"].as_u64().unwrap()).await);
    }

    // Another client moves a message, and a message is deleted.
    client.select("Work").await.unwrap();
    let moved = client.uid_mv("1", "INBOX").await;
    moved.unwrap();
    ada.delete(first).await.succeeds(200);
    let after = read(&format!("{uids}&view=summary")).await.succeeds(200);
    assert_eq!(subjects(&after), ["Third", "Fourth", "Second"]);
    assert_eq!(after["messages"][0]["folder"], "INBOX");
    assert_eq!(after["missing"], json!([999_999, first]));

    let bob = service.person("bob").await;
    let line = format!("GET /api/v1/mail/messages?uids={second}");
    let foreign = bob.send(&line).await.succeeds(200);
    assert_eq!(foreign, json!({ "messages": [], "missing": [second] }));
    let token = ada.token(&["mail:write"]).await;
    let refused = service.with_bearer(&line, token["token"].as_str().unwrap());
    refused
        .await
        .fails(403, "This credential is missing the \"mail:read\" scope");
    let many = (1..=21)
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(",");
    for (query, text) in [
        ("", "At least one uid is required"),
        ("uids=1,,2", "Invalid message UID"),
        ("uids=1&view=all", "Invalid view"),
        (
            &*format!("uids={many}&view=detail"),
            "Too many messages (max 20 per request)",
        ),
    ] {
        read(query).await.fails(400, text);
    }
    let listed: Vec<_> = client
        .list(None, Some("*"))
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert!(!listed.is_empty());
}
