use latchmail_sdk::capability::{Blob, Error};
use latchmail_sdk::codes;
use latchmail_sdk::testing::{FakeHost, Letter, json, request};

use super::*;

fn posted(body: &str) -> Request {
    request(&[], &[], body)
}

/// Returns the smallest valid body with additional fields.
fn body(fields: &str) -> String {
    format!(r#"{{"from": "ada@example.test", "to": "bo@c.example", "subject": "s"{fields}}}"#)
}

fn refused(body: &str) -> String {
    let host = FakeHost::new();
    let mut request = posted(body);
    request
        .blobs
        .get_mut()
        .push(Some(Blob::Bytes(b"x".to_vec())));
    let failure = send_message(&host, &request).unwrap_err();
    assert_eq!(failure.status, 400, "{body}");
    assert!(host.sent().is_empty());
    failure.text.into_owned()
}

#[test]
fn a_message_is_sent_unchanged() {
    let host = FakeHost::new();
    let mut request = posted(&body(
        r#", "cc": ["A <a@c.example>, b@c.example", "d@c.example"], "bcc": null, "text": "t", "html": "<p>",
            "inReplyTo": "<1@x>", "references": "<0@x>  <1@x>",
            "attachments": [{"filename": "ü.txt", "content": 1}, {"filename": "b", "contentType": "Text/CSV", "content": 0}]"#,
    ));
    let blob = |text: &str| Some(Blob::Bytes(text.into()));
    request.blobs.get_mut().extend([blob("zero"), blob("one")]);
    let response = json(send_message(&host, &request));
    assert_eq!(
        response,
        serde_json::json!({"messageId": "<1@example.test>", "savedTo": "Sent"})
    );
    let sent = host.sent().remove(0);
    assert_eq!(sent.key, None);
    let (sent, files) = (&sent.draft, &sent.files);
    assert_eq!(sent.from.as_ref().unwrap().address, "ada@example.test");
    let cc: Vec<_> = sent
        .cc
        .iter()
        .map(|a| (a.name.as_str(), a.address.as_str()))
        .collect();
    assert_eq!(
        cc,
        [
            ("A", "a@c.example"),
            ("", "b@c.example"),
            ("", "d@c.example")
        ]
    );
    assert_eq!(sent.references, ["<0@x>", "<1@x>"]);
    assert_eq!(sent.in_reply_to.as_deref(), Some("<1@x>"));
    let files: Vec<_> = files
        .iter()
        .map(|file| (&*file.filename, &*file.content_type, &*file.content))
        .collect();
    let expected = [
        ("ü.txt", "application/octet-stream", &b"one"[..]),
        ("b", "text/csv", b"zero"),
    ];
    assert_eq!(files, expected);
}

#[test]
fn values_at_the_limit_are_accepted_and_values_beyond_it_are_refused() {
    let sends = |body: &str| json(send_message(&FakeHost::new(), &posted(body)));
    let subject = |n: usize| {
        let subject = "ü".repeat(n);
        format!(r#"{{"from": "ada@example.test", "to": "bo@c.example", "subject": "{subject}"}}"#)
    };
    sends(&subject(998));
    assert_eq!(
        refused(&subject(999)),
        "subject must be at most 998 characters"
    );
    let cc = |n: usize| {
        body(&format!(
            r#", "cc": "{}""#,
            vec!["a@c.example"; n].join(",")
        ))
    };
    sends(&cc(49));
    assert_eq!(
        refused(&cc(50)),
        "Too many recipients (max 50 across to, cc and bcc)"
    );
    let files = |n: usize| {
        let files = vec![r#"{"filename": "a", "content": 0}"#; n].join(",");
        body(&format!(r#", "attachments": [{files}]"#))
    };
    assert_eq!(refused(&files(21)), "attachments must be at most 20 files");
    // Each attachment refers to its own blob.
    assert_eq!(
        refused(&files(2)),
        "attachments[1].content must be standard base64"
    );
}

#[test]
fn an_invalid_source_of_a_file_is_named() {
    for (fields, text) in [
        (
            r#", "attachments": [{"uid": 0}]"#,
            "attachments[0].uid must be at least 1",
        ),
        (
            r#", "attachments": [{"uid": 1, "uploadId": "a"}]"#,
            "attachments[0].uid must be the only source: content, uploadId or uid",
        ),
        (
            r#", "attachments": [{"uploadId": "a", "content": 0}]"#,
            "attachments[0].uploadId must be the only source: content, uploadId or uid",
        ),
        (
            r#", "attachments": [{"uploadId": "a", "index": 0}]"#,
            "attachments[0].index must be absent without uid",
        ),
        (
            r#", "attachments": [{"uid": 1, "contentType": "text/plain"}]"#,
            "attachments[0].contentType must be absent for a complete message",
        ),
        (
            r#", "attachments": [{"uid": 1, "contentId": "<a@b>"}]"#,
            "attachments[0].contentId must be 1 to 255 visible ASCII characters without angle brackets",
        ),
        (
            r#", "attachments": [{"uid": 1, "contentId": "a"}, {"uid": 2, "contentId": "a"}]"#,
            "attachments[1].contentId must be different for each attachment",
        ),
    ] {
        assert_eq!(refused(&body(fields)), text);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn an_invalid_field_is_named() {
    for (fields, text) in [
        (r#", "cc": 7"#, "cc must be a string or an array of strings"),
        (r#", "cc": [7]"#, "cc[0] must be a string"),
        (r#", "cc": "nobody""#, "cc must contain only mail addresses"),
        (
            r#", "bcc": ["a@b.example", "x\r\ny"]"#,
            "bcc must contain only mail addresses",
        ),
        (r#", "text": 1"#, "text must be a string"),
        (
            r#", "inReplyTo": "1@x""#,
            "inReplyTo must be one Message-ID in angle brackets",
        ),
        (
            r#", "inReplyTo": "<1@x> <2@x>""#,
            "inReplyTo must be one Message-ID in angle brackets",
        ),
        (
            r#", "inReplyTo": "<1@x\r\nX: y>""#,
            "inReplyTo must be one Message-ID in angle brackets",
        ),
        (
            r#", "references": "<1@x>,<2@x>""#,
            "references must be Message-IDs in angle brackets, separated by spaces",
        ),
        (
            r#", "references": ["<1@x>", "<2@x> <3@x>"]"#,
            "references[1] must be one Message-ID in angle brackets",
        ),
        (r#", "references": [7]"#, "references[0] must be a string"),
        (
            r#", "references": 7"#,
            "references must be a string or an array of strings",
        ),
        (
            r#", "attachments": [{"content": 0}]"#,
            "attachments[0].filename is required",
        ),
        (
            r#", "attachments": [{"filename": "a"}]"#,
            "attachments[0].content is required",
        ),
        (
            r#", "attachments": [{"filename": "a\nb", "content": 0}]"#,
            "attachments[0].filename must be 1 to 255 characters without control characters",
        ),
        (
            r#", "attachments": [{"filename": "a", "contentType": "text/plain; x=y", "content": 0}]"#,
            "attachments[0].contentType must be a media type without parameters",
        ),
        (
            r#", "attachments": [{"filename": "a", "contentType": "multipart/mixed", "content": 0}]"#,
            "attachments[0].contentType must be a media type without parameters",
        ),
        (
            r#", "fromName": "a\r\nBcc: b""#,
            "fromName must be at most 255 characters without control characters",
        ),
        (
            r#", "replyTo": ["a@b.example", "no address"]"#,
            "replyTo must contain only mail addresses",
        ),
        (
            r#", "replyTo": 7"#,
            "replyTo must be a string or an array of strings",
        ),
        (
            r#", "headers": [{"name": "X-A", "value": "v"}, {"name": "References", "value": "v"}]"#,
            "headers[1].name must be X-*, List-*, Auto-Submitted, Importance or Precedence",
        ),
        (
            r#", "headers": [{"name": "X-Spam-Flag", "value": "NO"}]"#,
            "headers[0].name must not be a name that mail servers trust",
        ),
        (
            r#", "headers": [{"name": "X-A", "value": "v\r\nBcc: b"}]"#,
            "headers[0].value must be 1 to 900 characters on one line without control characters",
        ),
        (
            r#", "headers": [{"name": "Importance", "value": "\u00fc"}]"#,
            "headers[0].value must be ASCII characters",
        ),
        (
            r#", "headers": [{"name": "List-Id", "value": "a"}, {"name": "list-id", "value": "b"}]"#,
            "headers[1].name must not be repeated",
        ),
        (
            r#", "headers": [{"name": "X-A"}]"#,
            "headers[0].value is required",
        ),
    ] {
        assert_eq!(refused(&body(fields)), text);
    }
    assert_eq!(refused("x"), "Invalid JSON body");
    assert_eq!(refused("{}"), "from is required");
    let of = |from: &str, to: &str, subject: &str| {
        format!(r#"{{"from": "{from}", "to": {to}, "subject": "{subject}"}}"#)
    };
    let to = r#""bo@c.example""#;
    for from in [
        "",
        "Ada <ada@b.example>",
        "<ada@b.example>",
        "a@b.example, c@d.example",
        "ada",
    ] {
        assert_eq!(
            refused(&of(from, to, "s")),
            "from must be one mail address without a name"
        );
    }
    for none in [r#""""#, "[]", "null"] {
        let text = refused(&of("ada@example.test", none, "s"));
        assert_eq!(text, "to must name at least one recipient");
    }
    let breaks = refused(&of("ada@example.test", to, "a\\r\\nBcc: x"));
    assert_eq!(breaks, "subject must not have line breaks");
    let nul = refused(&of("ada@example.test", to, "a\\u0000"));
    assert_eq!(nul, "subject must not have control characters");
}

#[test]
fn a_sender_of_another_account_is_refused_before_sending() {
    let host = FakeHost::new();
    let foreign = body("").replace("ada@example.test", "bob@example.test");
    let failure = send_message(&host, &posted(&foreign)).unwrap_err();
    let text = "You can only send from your own address or active aliases";
    assert_eq!((failure.status, &*failure.text), (403, text));
    assert!(host.sent().is_empty());
    host.fail(Error::Internal);
    let failure = send_message(&host, &posted(&body(""))).unwrap_err();
    let text = "The message could not be sent";
    assert_eq!((failure.status, &*failure.text), (500, text));
    assert!(host.sent().is_empty());
}

#[test]
fn each_error_of_the_host_has_its_status() {
    for (error, status) in [
        (Error::too_large(codes::MESSAGE_TOO_LARGE, "x"), 413),
        (
            Error::rejected(codes::MAIL_SERVER_REJECTED, "bo@c.example: no such user"),
            400,
        ),
        (Error::conflict(codes::IDEMPOTENCY_KEY_REUSED, "x"), 409),
        (Error::Unavailable, 503),
        (Error::OutcomeUnknown, 500),
    ] {
        let host = FakeHost::new();
        host.fail_sending(error);
        let failure = send_message(&host, &posted(&body(""))).unwrap_err();
        assert_eq!(failure.status, status);
    }
}

#[test]
fn the_idempotency_key_is_passed_on_and_a_replay_is_reported() {
    let host = FakeHost::new();
    let with = |key: &str| {
        let mut request = posted(&body(""));
        request.headers.push(("idempotency-key".into(), key.into()));
        request
    };
    for replayed in [false, true] {
        let reply = send_message(&host, &with("k-1")).unwrap();
        let header = ("idempotent-replayed".into(), "true".into());
        assert_eq!(reply.headers.contains(&header), replayed);
    }
    assert_eq!(host.sent().len(), 1);
    assert_eq!(host.sent()[0].key.as_deref(), Some("k-1"));
    for bad in ["", "a b", "ü", &"x".repeat(256)] {
        let failure = send_message(&host, &with(bad)).unwrap_err();
        assert_eq!(failure.status, 400, "{bad:?}");
    }
}

#[test]
fn the_sender_has_a_name_and_the_message_has_header_fields() {
    let host = FakeHost::new();
    let fields = r#", "fromName": " Ada ", "replyTo": "Team <team@c.example>, b@c.example",
        "headers": [{"name": "X-Ticket", "value": " 7 "}]"#;
    send_message(&host, &posted(&body(fields))).unwrap();
    let sent = host.sent().remove(0);
    assert_eq!(sent.draft.from.as_ref().unwrap().name, "Ada");
    let reply_to: Vec<_> = sent
        .draft
        .reply_to
        .iter()
        .map(|one| &*one.address)
        .collect();
    assert_eq!(reply_to, ["team@c.example", "b@c.example"]);
    assert_eq!(
        (&*sent.draft.headers[0].name, &*sent.draft.headers[0].value),
        ("X-Ticket", "7")
    );
}

#[test]
fn a_message_and_its_attachment_can_be_attached() {
    let host = FakeHost::new();
    let letter = Letter::from("grace@example.org").subject("Plan");
    let uid = host.deliver(letter.file("a.csv", "text/csv", b"a,b"));
    let fields = format!(
        r#", "html": "<img src='cid:a'>", "attachments": [{{"uid": {uid}}},
            {{"uid": {uid}, "index": 0, "contentId": "a", "inline": true, "filename": "b.csv"}}]"#
    );
    send_message(&host, &posted(&body(&fields))).unwrap();
    let sent = host.sent().remove(0);
    let files: Vec<_> = sent
        .files
        .iter()
        .map(|file| (&*file.filename, &*file.content_type))
        .collect();
    assert_eq!(
        files,
        [("Plan.eml", "message/rfc822"), ("b.csv", "text/csv")]
    );
    assert!(sent.draft.files[1].inline);
    for (attachment, text) in [
        (
            format!(r#"{{"uid": {uid}, "index": 1}}"#),
            "Attachment not found",
        ),
        (r#"{"uid": 77}"#.to_owned(), "Message not found"),
        (r#"{"uploadId": "none"}"#.to_owned(), "Upload not found"),
    ] {
        let fields = format!(r#", "attachments": [{attachment}]"#);
        let failure = send_message(&host, &posted(&body(&fields))).unwrap_err();
        assert_eq!((failure.status, &*failure.text), (404, text));
    }
    host.use_token(&[latchmail_sdk::capability::Scope::MailSend]);
    let fields = format!(r#", "attachments": [{{"uid": {uid}}}]"#);
    let failure = send_message(&host, &posted(&body(&fields))).unwrap_err();
    assert_eq!(failure.status, 403);
}
