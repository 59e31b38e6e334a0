//! Text from a client never becomes a header, a part or a command of its own.

use latchmail_tests::{Service, StoredMessage, imap, stored_messages};
use serde_json::{Value, json};

use super::{
    SEND, assert_well_formed, mail, received_subjects, send_mail, wait_for_mail, with,
    without_trace_fields,
};

/// Returns a mail with a text inserted at the end of a field.
fn injected(field: &str, text: &str) -> Value {
    let file = |field: &str, value: String| {
        let mut file =
            json!({ "filename": "a.txt", "contentType": "text/plain", "content": "YQ==" });
        file[field] = value.into();
        json!([file])
    };
    let mail = mail("injected");
    match field {
        "from" => with(mail, "from", format!("ada@first.test{text}")),
        "to" | "cc" | "bcc" => with(mail, field, format!("bob@first.test{text}")),
        "a list" => with(
            mail,
            "to",
            json!(["bob@first.test", format!("bob@first.test{text}")]),
        ),
        "a name" => with(mail, "to", format!("Bob{text} <bob@first.test>")),
        "a quoted name" => with(mail, "cc", format!("\"Bob{text}\" <bob@first.test>")),
        "a domain" => with(mail, "cc", format!("bob@first{text}.test")),
        "subject" => with(mail, "subject", format!("injected{text}")),
        "inReplyTo" => with(mail, field, format!("<a@outside.test>{text}")),
        "an id" => with(mail, "inReplyTo", format!("<a{text}@outside.test>")),
        "references" => with(mail, field, format!("<a@x.test>{text} <b@x.test>")),
        "a reference" => with(
            mail,
            "references",
            json!(["<a@x.test>", format!("<b@x.test>{text}")]),
        ),
        "filename" => with(
            mail,
            "attachments",
            file("filename", format!("a{text}.txt")),
        ),
        "contentType" => with(
            mail,
            "attachments",
            file("contentType", format!("text/plain{text}")),
        ),
        "a parameter" => with(
            mail,
            "attachments",
            file("contentType", format!("text/plain; name=\"a{text}\"")),
        ),
        other => panic!("{other}"),
    }
}

const PLACES: [&str; 16] = [
    "from",
    "to",
    "cc",
    "bcc",
    "a list",
    "a name",
    "a quoted name",
    "a domain",
    "subject",
    "inReplyTo",
    "an id",
    "references",
    "a reference",
    "filename",
    "contentType",
    "a parameter",
];

#[track_caller]
fn assert_no_injection(message: &StoredMessage) {
    assert_well_formed(message);
    let text = String::from_utf8_lossy(without_trace_fields(&message.bytes)).to_lowercase();
    for line in text.split(['\r', '\n']) {
        assert!(
            !line.starts_with("x-injected") && !line.starts_with("bcc"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_line_break_or_nul_in_any_field_is_refused_or_encoded() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let eve = service.person("eve").await;
    let mut taken = 0;
    for place in PLACES {
        for text in [
            "\r\nX-Injected: yes",
            "\nX-Injected: yes",
            "\rX-Injected: yes",
            "\0X-Injected: yes",
            "\r\n X-Injected: yes",
            "\r\nBcc: eve@first.test\r\nX-Injected: yes",
            "\r\n\r\nX-Injected: yes",
            ">\r\nRCPT TO:<eve@first.test",
            "\r\n.\r\nMAIL FROM:<ada@first.test>",
            "\u{85}X-Injected: yes",
            "\u{2028}X-Injected: yes",
        ] {
            let response = ada.post(SEND, &injected(place, text)).await;
            match response.status {
                200 => {
                    wait_for_mail(&bob, &response.json).await;
                    taken += 1;
                }
                400 => assert!(response.json["error"].is_string()),
                // The inserted text changes the sender.
                403 if place == "from" => (),
                status => panic!("{place} {text:?}: {status} {}", response.json),
            }
            let breaks = text.contains(['\r', '\n']);
            let strict = ["from", "to", "cc", "bcc", "a list", "subject", "a domain"];
            if breaks && strict.contains(&place) {
                assert_eq!(response.status, 400, "{place} {text:?}");
            }
        }
    }
    // Bob has one message for each success, and Eve has none.
    received_subjects(&ada, &bob).await;
    assert_eq!(bob.total("INBOX").await, taken + 1);
    assert_eq!(eve.total("INBOX").await, 0);
    let (mut at_bob, mut at_ada) = (imap(&bob).await, imap(&ada).await);
    for message in stored_messages(&mut at_bob, "INBOX").await {
        assert_no_injection(&message);
    }
    let copies = stored_messages(&mut at_ada, "Sent").await;
    assert_eq!(copies.len() as u64, taken + 1);
    for message in copies {
        assert_no_injection(&message);
    }
}

#[tokio::test]
async fn an_invalid_media_type_affects_only_its_file() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let long = format!("text/{}", "x".repeat(5000));
    for media in [
        "",
        " ",
        "x",
        "text",
        "text/",
        "/plain",
        "text/plain; charset=\"",
        "text/plain; charset=utf-8\"; x=\"",
        "text/plain; name=other.exe; filename=other.exe",
        "text/ü",
        "text/plain, text/html",
        "multipart/mixed",
        "multipart/mixed; boundary=x",
        "multipart/alternative",
        "message/partial; id=1; number=1; total=2",
        "message/external-body; access-type=URL",
        "application/octet-stream; x=\"\\\"; y=z",
        "<script>/x",
        "../../x",
        &long,
    ] {
        let file = json!({ "filename": "a.bin", "contentType": media, "content": "YWJjCg==" });
        let mail = with(mail("a media type"), "attachments", json!([file]));
        let response = ada.post(SEND, &mail).await;
        if response.status == 400 {
            let text = response.json["error"].as_str().unwrap();
            assert!(text.contains("contentType"), "{media:?}: {text}");
            continue;
        }
        let sent = response.succeeds(200);
        let received = wait_for_mail(&bob, &sent).await;
        assert_eq!(
            received["text"].as_str().unwrap().trim(),
            "This is a media type."
        );
        let listed = received["attachments"].as_array().unwrap();
        assert_eq!(listed.len(), 1, "{media:?}");
        assert_eq!(listed[0]["filename"], "a.bin", "{media:?}");
        let line = format!(
            "GET /api/v1/mail/messages/{}/attachments/0",
            received["uid"]
        );
        assert_eq!(bob.send(&line).await.body, b"abc\n", "{media:?}");
    }
    for message in stored_messages(&mut imap(&bob).await, "INBOX").await {
        assert_well_formed(&message);
    }
}

#[tokio::test]
async fn long_fields_are_accepted_unchanged_or_refused() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let many = "x".repeat(100_000);
    for (field, value) in [
        ("from", json!(format!("{many}@first.test"))),
        ("to", json!(format!("{many}@first.test"))),
        ("to", json!(format!("bob@{many}.test"))),
        ("to", json!(format!("{many} <bob@first.test>"))),
        ("cc", json!(",".repeat(100_000))),
        ("bcc", json!("\"".repeat(99_999))),
        ("cc", json!("<".repeat(100_000))),
        ("cc", json!("(".repeat(100_000))),
        ("to", json!(vec!["bob@first.test"; 10_000])),
        ("inReplyTo", json!(format!("<{many}@outside.test>"))),
        ("references", json!("<a@outside.test> ".repeat(10_000))),
        ("references", json!(vec!["<a@outside.test>"; 10_000])),
        (
            "attachments",
            json!([{ "filename": many, "content": "YQ==" }]),
        ),
    ] {
        let response = ada.post(SEND, &with(mail("long"), field, value)).await;
        let known = [200, 400, 403].contains(&response.status);
        assert!(known, "{field}: {} {}", response.status, response.json);
        if response.status == 200 {
            wait_for_mail(&bob, &response.json).await;
        }
    }
    for message in stored_messages(&mut imap(&bob).await, "INBOX").await {
        assert_well_formed(&message);
    }
    wait_for_mail(&bob, &send_mail(&ada, &mail("short")).await).await;
}
