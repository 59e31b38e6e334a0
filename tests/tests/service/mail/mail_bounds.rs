//! Messages that exceed a limit are returned, and marked as truncated.
//!
//! The limits are in `host/mailbox/src/bounds.rs`; these tests check what the API promises.

use std::fmt::Write as _;

use async_imap::Session;
use latchmail_tests::{Person, Service, imap};
use serde_json::{Value, json};
use tokio::net::TcpStream;

const MIB: usize = 1024 * 1024;

const HEADER: &str = "From: grace@outside.test\r\nTo: ada@first.test\r\nSubject: Large\r\nDate: Thu, 19 Nov 2026 10:00:00 +0100\r\nMIME-Version: 1.0\r\n";

/// Puts a message into the inbox, and returns its detail and its entry in the listing.
async fn read(
    person: &Person<'_>,
    client: &mut Session<TcpStream>,
    message: impl AsRef<[u8]>,
) -> (Value, Value) {
    client.append("INBOX", None, None, message).await.unwrap();
    let summary = person
        .send("GET /api/v1/mail/folders/INBOX/messages?limit=1")
        .await
        .succeeds(200)["messages"][0]
        .clone();
    let line = format!("GET /api/v1/mail/messages/{}", summary["uid"]);
    (person.send(&line).await.succeeds(200), summary)
}

fn attachments(detail: &Value) -> &Vec<Value> {
    detail["attachments"].as_array().unwrap()
}

fn length(text: &Value) -> usize {
    text.as_str().unwrap().len()
}

#[tokio::test]
async fn parts_nested_too_deeply_are_one_part_and_the_response_reports_it() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let nested = |depth: usize| {
        let mut message = HEADER.to_owned();
        for level in 0..depth {
            write!(
                message,
                "Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n"
            )
            .unwrap();
        }
        message + "Content-Type: text/plain\r\n\r\nThe innermost.\r\n"
    };
    let (within, _) = read(&ada, &mut client, nested(32)).await;
    assert_eq!(within["text"], "The innermost.\r\n");
    assert!(within.get("truncated").is_none());
    for depth in [33, 20_000] {
        let (beyond, summary) = read(&ada, &mut client, nested(depth)).await;
        assert_eq!(beyond["truncated"], true);
        assert!(beyond.get("text").is_none());
        assert_eq!(attachments(&beyond).len(), 1);
        assert_eq!(
            attachments(&beyond)[0]["contentType"],
            "application/octet-stream"
        );
        assert_eq!(summary["preview"], "");
    }
}

#[tokio::test]
async fn at_most_a_thousand_parts_are_returned_and_the_response_reports_it() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let of = |parts: usize| {
        let mut message = format!(
            "{HEADER}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nThe text.\r\n"
        );
        for part in 1..parts {
            write!(
                message,
                "--b\r\nContent-Type: image/gif; name={part}.gif\r\n\r\nGIF\r\n"
            )
            .unwrap();
        }
        message + "--b--\r\n"
    };
    let (within, _) = read(&ada, &mut client, of(1000)).await;
    assert_eq!(
        (attachments(&within).len(), within.get("truncated")),
        (999, None)
    );
    let (beyond, _) = read(&ada, &mut client, of(2000)).await;
    assert_eq!(beyond["truncated"], true);
    assert_eq!(beyond["text"], "The text.");
    assert_eq!(attachments(&beyond), attachments(&within));
}

#[tokio::test]
async fn a_header_of_a_megabyte_is_truncated_and_the_response_reports_it() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let filler = "X-Filler: and so on, and so on, and so on, and so on\r\n".repeat(MIB / 54 + 1);
    let (detail, summary) = read(
        &ada,
        &mut client,
        format!("{HEADER}{filler}Cc: late@outside.test\r\n\r\nThe text.\r\n"),
    )
    .await;
    assert_eq!(detail["truncated"], true);
    assert_eq!(
        (&detail["subject"], &detail["text"]),
        (&json!("Large"), &json!("The text.\r\n"))
    );
    assert_eq!(detail["cc"], json!([]));
    assert_eq!(summary["preview"], "The text.");
    // A single long field is read up to the limit of a field.
    let (detail, summary) = read(
        &ada,
        &mut client,
        format!(
            "{HEADER}References: {}\r\n\r\nThe text.\r\n",
            "<id@outside.test>\r\n ".repeat(MIB / 20)
        ),
    )
    .await;
    assert_eq!(detail["truncated"], true);
    let references = detail["references"].as_array().unwrap();
    assert!(references.len() > 1000 && references.iter().all(|id| id == "<id@outside.test>"));
    assert_eq!(
        (&detail["text"], &summary["preview"]),
        (&json!("The text.\r\n"), &json!("The text."))
    );
}

#[tokio::test]
async fn a_text_is_truncated_at_a_mebibyte_and_the_response_reports_it() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let both = |text: &str, html: &str| {
        format!(
            "{HEADER}Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n\
             --b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html}\r\n--b--\r\n"
        )
    };
    // An odd number of bytes before characters of two bytes.
    let lines = |bytes: usize| format!("x{}", "ééé éé\r\n".repeat(bytes / 13 + 1));
    let (within, _) = read(
        &ada,
        &mut client,
        both(&"x\r\n".repeat(MIB / 3), "<p>short</p>"),
    )
    .await;
    assert!(within.get("truncated").is_none());
    for (text, html) in [
        (lines(2 * MIB), "<p>short</p>".to_owned()),
        ("short".to_owned(), lines(2 * MIB)),
        (lines(3 * MIB), lines(3 * MIB)),
    ] {
        let (beyond, _) = read(&ada, &mut client, both(&text, &html)).await;
        assert_eq!(beyond["truncated"], true);
        for (field, whole) in [("text", &text), ("html", &html)] {
            let answered = beyond[field].as_str().unwrap();
            assert!(whole.starts_with(answered), "{field}");
            assert!(
                answered.len() > whole.len().min(MIB) - 4 && answered.len() <= MIB,
                "{field}: {}",
                answered.len()
            );
        }
    }
}

#[tokio::test]
async fn a_listing_returns_fewer_addresses_than_the_message() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let to = |count: usize| {
        let people: Vec<_> = (0..count)
            .map(|n| format!("p{n:05}@outside.test"))
            .collect();
        format!(
            "From: grace@outside.test\r\nTo: {}\r\nSubject: {}\r\n\r\nHi.\r\n",
            people.join(",\r\n "),
            "long ".repeat(1000)
        )
    };
    let count = |value: &Value| value["to"].as_array().unwrap().len();
    // A listing reads 4 KiB of a field, the message 64 KiB. Only the message can report truncation.
    let (detail, summary) = read(&ada, &mut client, to(500)).await;
    assert_eq!((count(&detail), detail.get("truncated")), (500, None));
    assert_eq!(length(&detail["subject"]), 4999);
    assert!((50..500).contains(&count(&summary)));
    assert!((4000..=4096).contains(&length(&summary["subject"])));
    let (detail, summary) = read(&ada, &mut client, to(5000)).await;
    assert!((1000..5000).contains(&count(&detail)));
    assert_eq!(detail["truncated"], true);
    let whole = detail["to"].as_array().unwrap();
    assert!(whole.starts_with(summary["to"].as_array().unwrap()));
}

#[tokio::test]
async fn an_attachment_of_twenty_megabytes_is_described_in_full() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    // 57 bytes per line.
    let line = format!("{}\r\n", "A".repeat(76));
    let lines = 20 * MIB / 57 + 1;
    let (detail, summary) = read(
        &ada,
        &mut client,
        format!(
            "{HEADER}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nSee.\r\n--b\r\nContent-Type: video/mp4; name=film.mp4\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{}--b--\r\n",
            line.repeat(lines)
        ),
    )
    .await;
    assert_eq!(
        detail["attachments"],
        json!([{ "index": 0, "filename": "film.mp4", "contentType": "video/mp4", "size": lines * 57, "contentId": null, "disposition": "attachment" }])
    );
    assert_eq!(
        (&detail["text"], detail.get("truncated")),
        (&json!("See."), None)
    );
    assert_eq!(summary["preview"], "See.");
}
