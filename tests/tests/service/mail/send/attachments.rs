//! Attached files, and the maximum size of a mail.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_tests::{Person, Response, Service, imap, random_bytes};
use serde_json::{Value, json};

use super::{
    SEND, assert_well_formed, found, mail, received_subjects, refused, send_mail, wait_for_mail,
    with, without,
};

const TOO_LARGE: &str = "Message exceeds the 25 MB limit";

pub(super) fn file(name: &str, media: &str, bytes: &[u8]) -> Value {
    json!({ "filename": name, "contentType": media, "content": STANDARD.encode(bytes) })
}

async fn download(person: &Person<'_>, message: &Value, index: usize) -> Response {
    let line = format!(
        "GET /api/v1/mail/messages/{}/attachments/{index}",
        message["uid"]
    );
    let response = person.send(&line).await;
    assert_eq!(response.status, 200, "{}", response.json);
    response
}

/// Returns the file name of a download in any script (RFC 8187).
fn named(response: &Response) -> String {
    let value = response.header("content-disposition").unwrap();
    let (_, name) = value.split_once("filename*=UTF-8''").unwrap();
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(&after[..2]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn files_arrive_byte_for_byte_with_their_media_types() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let every_byte: Vec<u8> = (0..=255).collect();
    let lines = b"unix\nmac\rdos\r\nlong ".to_vec();
    let files = [
        ("every.bin", "application/octet-stream", every_byte.clone()),
        (
            "note.txt",
            "text/plain",
            [&lines[..], &[b'x'; 3000]].concat(),
        ),
        ("dots.txt", "text/plain", b".\r\n..\r\n.\r\n".to_vec()),
        (
            "page.html",
            "text/html",
            b"<p>\xff\xfe not UTF-8</p>\n\n".to_vec(),
        ),
        ("table.csv", "text/csv", b"a;b\n1;2".to_vec()),
        ("image.svg", "image/svg+xml", b"<svg/>".to_vec()),
        (
            "letter.docx",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            random_bytes(10_000),
        ),
        ("empty.txt", "text/plain", Vec::new()),
        ("large.mp4", "video/mp4", random_bytes(10 * 1024 * 1024)),
    ];
    let attached: Value = files
        .iter()
        .map(|(name, media, bytes)| file(name, media, bytes))
        .collect();
    for texts in [&["text"][..], &["text", "html"], &[]] {
        let mut mail = without(with(mail("files"), "attachments", attached.clone()), "text");
        for field in texts {
            mail = with(mail, field, format!("<p>The {field}.</p>"));
        }
        let sent = send_mail(&ada, &mail).await;
        let received = wait_for_mail(&bob, &sent).await;
        for field in texts {
            let text = received[field].as_str().unwrap();
            assert_eq!(text.trim(), format!("<p>The {field}.</p>"));
        }
        let listed = received["attachments"].as_array().unwrap();
        assert_eq!(listed.len(), files.len());
        for (index, (name, media, bytes)) in files.iter().enumerate() {
            let expected = json!({
                "index": index, "filename": name, "contentType": media, "size": bytes.len(),
                "contentId": null, "disposition": "attachment",
            });
            assert_eq!(listed[index], expected);
            let response = download(&bob, &received, index).await;
            assert!(response.body == *bytes, "{name} is another one");
        }
    }
}

#[tokio::test]
async fn a_file_without_a_media_type_and_an_attached_message_arrive() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let inner = b"From: x@outside.test\r\nSubject: inner\r\n\r\nNested.\r\n";
    let attached = json!([
        { "filename": "plain.bin", "content": STANDARD.encode(b"\x00\x01") },
        file("inner.eml", "message/rfc822", inner),
    ]);
    let sent = send_mail(&ada, &with(mail("files"), "attachments", attached)).await;
    let received = wait_for_mail(&bob, &sent).await;
    let listed = received["attachments"].as_array().unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["filename"], "plain.bin");
    assert_eq!(listed[1]["contentType"], "message/rfc822");
    assert_eq!(listed[1]["filename"], "inner.eml");
    assert_eq!(download(&bob, &received, 0).await.body, b"\x00\x01");
    let nested = download(&bob, &received, 1).await.body;
    assert_eq!(nested.trim_ascii_end(), inner.trim_ascii_end());
}

#[tokio::test]
async fn file_names_in_any_script_arrive_unchanged_in_a_safe_header() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let names = [
        "plain name.txt".to_owned(),
        "résumé.pdf".into(),
        "日本語の書類 – Übersicht.docx".into(),
        "🎉 party 🥳.png".into(),
        "العربية.pdf".into(),
        "Привет, мир.txt".into(),
        "he said \"hi\".txt".into(),
        "semi;colon='x'; filename=y.txt".into(),
        "100% sure.txt".into(),
        "a%41b.txt".into(),
        "=?utf-8?Q?=41?=.txt".into(),
        "UTF-8''x.txt".into(),
        "(comment) <angle> [square] {curly}.txt".into(),
        "two  blanks.txt".into(),
        format!("{}.txt", "ü".repeat(190)),
        format!("{}.txt", "日本".repeat(95)),
        format!("{}.txt", "long name ".repeat(19)),
        "x".repeat(200),
        "no extension".into(),
    ];
    let attached: Value = names.iter().map(|n| file(n, "text/plain", b"x")).collect();
    let sent = send_mail(&ada, &with(mail("names"), "attachments", attached)).await;
    let received = wait_for_mail(&bob, &sent).await;
    assert_well_formed(&found(&mut imap(&bob).await, "INBOX", &sent).await);
    for (index, name) in names.iter().enumerate() {
        assert_eq!(received["attachments"][index]["filename"], *name);
        let response = download(&bob, &received, index).await;
        assert_eq!(named(&response), *name);
        let value = response.header("content-disposition").unwrap();
        assert!(value.is_ascii() && value.starts_with("attachment; "));
    }
}

#[tokio::test]
async fn twenty_files_are_accepted_and_one_more_is_refused() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let of = |count: u8| -> Value {
        (0..count)
            .map(|n| file(&format!("{n}.bin"), "image/png", &[n]))
            .collect()
    };
    let response = ada
        .post(SEND, &with(mail("21 files"), "attachments", of(21)))
        .await;
    response.fails_mentioning(400, "attachments");
    let sent = send_mail(&ada, &with(mail("20 files"), "attachments", of(20))).await;
    let received = wait_for_mail(&bob, &sent).await;
    assert_eq!(received["attachments"].as_array().unwrap().len(), 20);
    for index in [0, 7, 19] {
        let body = download(&bob, &received, usize::from(index)).await.body;
        assert_eq!(body, [index]);
    }
    let none = send_mail(&ada, &with(mail("no files"), "attachments", json!([]))).await;
    assert_eq!(wait_for_mail(&bob, &none).await["attachments"], json!([]));
    assert_eq!(
        received_subjects(&ada, &bob).await,
        ["20 files", "no files"]
    );
}

#[tokio::test]
async fn invalid_base64_is_refused_with_the_name_of_its_field() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let long = STANDARD.encode(random_bytes(300_000));
    for content in [
        "no base64!",
        "YWJj-_8=",
        "A",
        "AAAAA",
        "YQ=",
        "YQ===",
        "=",
        "====",
        "=YQ=",
        "YQ==YQ==",
        "YQ==x",
        "Y=Q=",
        "data:text/plain;base64,YQ==",
        "ÄÖÜß",
        "AAA\0",
        &format!("{long}!"),
        &format!("!{long}"),
    ] {
        for before in [0, 1] {
            let mut attached = vec![file("good.txt", "text/plain", b"x"); before];
            attached.push(json!({ "filename": "bad.txt", "content": content }));
            let mail = with(mail("no base64"), "attachments", attached);
            let response = ada.post(SEND, &mail).await;
            response.fails_mentioning(400, "content");
        }
    }
    assert_eq!(received_subjects(&ada, &bob).await, [""; 0]);
}

#[tokio::test]
async fn a_mail_below_25_mb_is_accepted_and_one_above_is_refused() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    // The limit applies to the complete message: base64 in lines of at most 76 characters makes
    // 26,136,844 bytes of these.
    let film = random_bytes(19_100_000);
    let attached = json!([file("film.mp4", "video/mp4", &film)]);
    let sent = send_mail(&ada, &with(mail("large"), "attachments", attached)).await;
    let received = wait_for_mail(&bob, &sent).await;
    assert_eq!(received["attachments"][0]["size"], film.len());
    assert!(received["size"].as_u64().unwrap() <= 26_214_400 + 2000);
    let response = download(&bob, &received, 0).await;
    assert!(response.body == film, "the file has changed");
    assert_eq!(sent["savedTo"], "Sent");
    // 26,273,684 bytes of base64, which are less than 25 MB without the line breaks.
    let beyond = random_bytes(19_200_000);
    let halves: Value = beyond
        .chunks(9_600_000)
        .map(|half| file("half.mp4", "video/mp4", half))
        .collect();
    let one = json!([file("film.mp4", "video/mp4", &beyond)]);
    for attached in [one, halves] {
        let mail = with(mail("too large"), "attachments", attached);
        ada.post(SEND, &mail).await.fails(413, TOO_LARGE);
    }
    let text = with(mail("too large"), "text", "words ".repeat(5_000_000));
    refused(&ada.post(SEND, &text).await, 413, "a text of 30 MB");
    let much = STANDARD.encode(random_bytes(30_000_000));
    let much = json!([{ "filename": "much.bin", "content": much }]);
    let much = with(mail("too large"), "attachments", much);
    refused(&ada.post(SEND, &much).await, 413, "a body of 40 MB");
    assert_eq!(received_subjects(&ada, &bob).await, ["large"]);
    assert_eq!(ada.total("Sent").await, 2);
}
