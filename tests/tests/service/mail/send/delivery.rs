//! A sent mail arrives unchanged, and Sent has its copy.

use latchmail_tests::{Service, imap};
use serde_json::{Value, json};

use super::{
    assert_well_formed, found, mail, send_mail, wait_for_mail, with, without, without_trace_fields,
};

#[tokio::test]
async fn a_mail_is_delivered_and_its_copy_is_in_sent_byte_for_byte() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let rich = json!({
        "from": "ada@first.test",
        "to": "Bob Böhm <bob@first.test>",
        "cc": "copy@outside.test",
        "subject": "Grüße – 日本",
        "text": "Grüße\n.\n日本",
        "html": "<p>Grüße</p>",
        "inReplyTo": "<one@outside.test>",
        "references": "<zero@outside.test> <one@outside.test>",
        "attachments": [{ "filename": "übersicht.bin", "content": "AAEC/w==" }],
    });
    let (mut at_bob, mut at_ada) = (imap(&bob).await, imap(&ada).await);
    for mail in [mail("plain"), rich] {
        let response = ada.post("/api/v1/mail/send", &mail).await;
        assert!(response.header("idempotent-replayed").is_none());
        let sent = response.succeeds(200);
        let id = sent["messageId"].as_str().unwrap();
        assert_eq!(sent, json!({ "messageId": id, "savedTo": "Sent" }));
        assert!(id.starts_with('<') && id.ends_with('>') && id.contains('@'));
        let received = wait_for_mail(&bob, &sent).await;
        let delivered = found(&mut at_bob, "INBOX", &sent).await;
        let copy = found(&mut at_ada, "Sent", &sent).await;
        assert_eq!(
            String::from_utf8_lossy(without_trace_fields(&delivered.bytes)),
            String::from_utf8_lossy(&copy.bytes)
        );
        assert_eq!(without_trace_fields(&copy.bytes).len(), copy.bytes.len());
        assert_well_formed(&copy);
        let flags: Vec<_> = copy.flags.iter().collect();
        assert_eq!(flags, ["\\Seen"]);
        assert_eq!(copy.header("mime-version").as_deref(), Some("1.0"));
        let sender = delivered.header("return-path");
        assert_eq!(sender.as_deref(), Some("<ada@first.test>"));
        // Both, as the API returns them.
        let uid = ada.uid_of("Sent", mail["subject"].as_str().unwrap()).await;
        let kept = ada.message(uid).await;
        for field in [
            "from",
            "to",
            "cc",
            "subject",
            "date",
            "text",
            "html",
            "messageId",
            "inReplyTo",
            "references",
            "attachments",
        ] {
            assert_eq!(received[field], kept[field], "{field}");
        }
        assert_eq!(received["subject"], mail["subject"]);
        assert_eq!(received["from"][0]["address"], "ada@first.test");
        assert_eq!(received["from"].as_array().unwrap().len(), 1);
        let date = received["date"].as_str().unwrap();
        let date = chrono::DateTime::parse_from_rfc3339(date).unwrap();
        let age = service.clock.now().millis() - date.timestamp_millis();
        assert!((0..60_000).contains(&age), "{age} ms");
    }
    assert_eq!(ada.total("Sent").await, 2);
    assert_eq!(bob.total("Sent").await, 0);
}

#[tokio::test]
async fn a_mail_has_the_given_text_parts() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mut client = imap(&bob).await;
    for (text, html, media) in [
        (Some("Hello."), None, "text/plain"),
        (None, Some("<p>Hello.</p>"), "text/html"),
        (
            Some("Hello."),
            Some("<p>Hello.</p>"),
            "multipart/alternative",
        ),
        (None, None, ""),
    ] {
        let mut mail = without(mail(media), "text");
        for (field, value) in [("text", text), ("html", html)] {
            if let Some(value) = value {
                mail = with(mail, field, value);
            }
        }
        let sent = send_mail(&ada, &mail).await;
        let received = wait_for_mail(&bob, &sent).await;
        for (field, value) in [("text", text), ("html", html)] {
            let read = received.get(field).and_then(Value::as_str);
            match value {
                Some(value) => assert_eq!(read.map(str::trim_end), Some(value), "{media}"),
                // An empty body may be sent as an empty text.
                None => assert_eq!(read.unwrap_or_default().trim(), "", "{media}: {field}"),
            }
        }
        assert_eq!(received["attachments"], json!([]), "{media}");
        let stored = found(&mut client, "INBOX", &sent).await;
        assert_well_formed(&stored);
        let told = stored.header("content-type").unwrap_or_default();
        assert!(told.starts_with(media), "{told}");
        if media == "multipart/alternative" {
            // The richest alternative comes last (RFC 2046, section 5.1.4).
            let bytes = String::from_utf8_lossy(&stored.bytes).to_lowercase();
            assert!(bytes.find("text/plain") < bytes.find("text/html"));
        }
    }
    let html = without(with(mail("html only"), "html", "<b>x</b>"), "text");
    let received = wait_for_mail(&bob, &send_mail(&ada, &html).await).await;
    assert!(received.get("text").is_none());
}

#[tokio::test]
async fn texts_arrive_unchanged() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mut client = imap(&bob).await;
    for text in [
        "One line",
        "Two\nlines",
        "Two\r\nlines",
        "Grüße, Привет, 日本語, 🎉, e\u{301}",
        ".\n..\n.dots\n.",
        "From the start\nFrom here too\n>From",
        "  indented\n\ttab\nblanks at the end   \nand on",
        "-- \nA signature",
        "=3D =?utf-8?Q?x?= = \n=",
        "--boundary\n--\n----=_Part\nContent-Type: text/html",
        "\n\nempty lines before, between\n\n\n\nand then",
    ] {
        let long = format!("{text}\n{}\n{}", "x".repeat(5000), "ü".repeat(3000));
        for text in [text, &long] {
            let both = with(with(mail("written"), "text", text), "html", text);
            let sent = send_mail(&ada, &both).await;
            let received = wait_for_mail(&bob, &sent).await;
            let written = text.replace("\r\n", "\n");
            for field in ["text", "html"] {
                let read = received[field].as_str().unwrap().replace("\r\n", "\n");
                assert_eq!(read.trim_end_matches('\n'), written, "{field}");
            }
            assert_well_formed(&found(&mut client, "INBOX", &sent).await);
        }
    }
}

#[tokio::test]
async fn a_reply_contains_the_given_message_ids() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mut client = imap(&bob).await;
    let many: Vec<String> = (0..60)
        .map(|n| format!("<{n}.{}@outside.test>", "long".repeat(10)))
        .collect();
    for (reply, references) in [
        ("<one@outside.test>", vec!["<one@outside.test>".to_owned()]),
        (
            "<CAF=abc+def$ghi_123@mail.outside.test>",
            vec!["<zero@[192.0.2.1]>".into(), "<a.b-c!d@x>".into()],
        ),
        ("<last@outside.test>", many),
    ] {
        let mail = with(mail("an answer"), "inReplyTo", reply);
        // As one string, and as the array of a message's detail.
        for form in [json!(references.join(" ")), json!(references)] {
            let sent = send_mail(&ada, &with(mail.clone(), "references", form)).await;
            let received = wait_for_mail(&bob, &sent).await;
            assert_eq!(received["inReplyTo"], reply);
            assert_eq!(received["references"], json!(references));
            let stored = found(&mut client, "INBOX", &sent).await;
            assert_well_formed(&stored);
            assert_eq!(stored.header("in-reply-to").as_deref(), Some(reply));
            let told = stored.header("references").unwrap();
            assert_eq!(told.split_whitespace().collect::<Vec<_>>(), references);
            let id = sent["messageId"].as_str().unwrap();
            assert!(id != reply && !references.iter().any(|r| r == id));
        }
    }
    for none in [json!(null), json!(""), json!([])] {
        let mail = with(mail("no answer"), "references", none);
        let sent = send_mail(&ada, &mail).await;
        let received = wait_for_mail(&bob, &sent).await;
        assert!(received.get("inReplyTo").is_none());
        assert_eq!(received["references"], json!([]));
        let stored = found(&mut client, "INBOX", &sent).await;
        assert_eq!(stored.header("in-reply-to"), None);
        assert_eq!(stored.header("references"), None);
    }
}

#[tokio::test]
async fn a_subject_of_998_characters_arrives_unchanged_and_folded() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mut client = imap(&bob).await;
    let whole = |text: &str| -> String { text.chars().cycle().take(998).collect() };
    for subject in [
        whole("x"),
        whole("words of a length "),
        whole("ü"),
        whole("日本語"),
        whole("wörter und mehr "),
        "Re: [list] {3} \"quoted\" \\ back %s * & <tag> (comment), a@b; =3D".into(),
        "two  blanks and   three".into(),
        "=?utf-8?Q?not_an_encoded=20word?=".into(),
        "Grüße =?x?= Привет 日本 🎉 e\u{301}".into(),
        "العربية ‏and עברית".replace('\u{200f}', ""),
        "\u{1f468}\u{1f3fd} emoji of several".into(),
    ] {
        // A trailing space is not part of a field.
        let subject = match subject.strip_suffix(' ') {
            Some(rest) => format!("{rest}."),
            None => subject,
        };
        let sent = send_mail(&ada, &mail(&subject)).await;
        let received = wait_for_mail(&bob, &sent).await;
        assert_eq!(received["subject"], subject);
        assert_well_formed(&found(&mut client, "INBOX", &sent).await);
    }
}

#[tokio::test]
async fn each_mail_has_its_own_id() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mail = mail("the same");
    let (a, b, c) = tokio::join!(
        send_mail(&ada, &mail),
        send_mail(&ada, &mail),
        send_mail(&ada, &mail)
    );
    assert!(a["messageId"] != b["messageId"] && b["messageId"] != c["messageId"]);
    for sent in [a, b, c] {
        assert_eq!(wait_for_mail(&bob, &sent).await["subject"], "the same");
    }
    assert_eq!(ada.total("Sent").await, 3);
    assert_eq!(bob.total("INBOX").await, 3);
    let uids: std::collections::BTreeSet<_> = ada.uids("Sent").await.into_iter().collect();
    assert_eq!(uids.len(), 3);
}
