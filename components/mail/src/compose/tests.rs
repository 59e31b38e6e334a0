use latchmail_sdk::Request;
use latchmail_sdk::capability::{Error, Scope};
use latchmail_sdk::testing::{FakeHost, Letter, json, request};
use serde_json::json;

use super::*;

fn letter() -> Letter {
    Letter::from("Bo <bo@c.example>")
        .to("ada@example.test")
        .to("cy@c.example")
        .subject("Plan")
        .text("Hello")
        .message_id("<1@c.example>")
}

fn posted(uid: u64, body: &str) -> Request {
    request(&[("uid", &uid.to_string())], &[], body)
}

/// Returns a host with one message, and the number of the message.
fn host() -> (FakeHost, u64) {
    let host = FakeHost::new();
    let uid = host.deliver(letter());
    (host, uid)
}

/// Sends a request with this body, and returns the failure's status and text.
fn refused(mode: Mode, body: &str) -> (u16, String) {
    let (host, uid) = host();
    let failure = send(&host, &posted(uid, body), mode).unwrap_err();
    assert!(host.sent().is_empty());
    (failure.status, failure.text.into_owned())
}

#[test]
fn a_reply_has_the_values_of_the_service() {
    let (host, uid) = host();
    let response = json(reply(&host, &posted(uid, r#"{"text": "Yes"}"#)));
    assert_eq!(response["savedTo"], "Sent");
    let draft = &host.sent()[0].draft;
    assert_eq!(draft.from.as_ref().unwrap().address, "ada@example.test");
    let to: Vec<_> = draft.to.iter().map(|one| &*one.address).collect();
    assert_eq!(to, ["bo@c.example"]);
    assert_eq!(draft.subject, "Re: Plan");
    assert_eq!(draft.references, ["<1@c.example>"]);
    let text = "Yes\n\nbo@c.example wrote:\n> Hello\n";
    assert_eq!(draft.text.as_deref(), Some(text));
    let original = draft.original.as_ref().unwrap();
    assert_eq!((original.uid, original.relation.as_str()), (uid, "reply"));
}

#[test]
fn given_fields_replace_those_of_the_service() {
    let (host, uid) = host();
    let body = json!({
        "to": "x@c.example", "cc": [], "subject": "Other", "inReplyTo": "", "fromName": "Ada",
        "references": [], "headers": [{"name": "X-A", "value": "b"}],
    });
    reply_all(&host, &posted(uid, &body.to_string())).unwrap();
    let draft = &host.sent()[0].draft;
    assert_eq!(draft.from.as_ref().unwrap().name, "Ada");
    assert_eq!((draft.to.len(), draft.cc.len()), (1, 0));
    assert_eq!(draft.to[0].address, "x@c.example");
    assert_eq!(draft.subject, "Other");
    assert_eq!((&draft.in_reply_to, draft.references.len()), (&None, 0));
    assert_eq!(draft.headers[0].name, "X-A");
}

#[test]
fn a_reply_to_all_goes_to_all_recipients() {
    let (host, uid) = host();
    reply_all(&host, &posted(uid, "{}")).unwrap();
    let draft = &host.sent()[0].draft;
    let to: Vec<_> = draft.to.iter().map(|one| &*one.address).collect();
    assert_eq!(to, ["bo@c.example", "cy@c.example"]);
}

#[test]
fn a_forward_has_the_files_unless_the_request_has_attachments() {
    let host = FakeHost::new();
    let uid = host.deliver(letter().file("a.txt", "text/plain", b"a"));
    for body in [
        r#"{"to": "x@c.example"}"#,
        r#"{"to": "x@c.example", "attachments": []}"#,
        r#"{"to": "x@c.example", "asAttachment": true, "text": "See"}"#,
    ] {
        forward(&host, &posted(uid, body)).unwrap();
    }
    let sent = host.sent();
    assert_eq!(sent[0].files[0].filename, "a.txt");
    assert_eq!(sent[0].draft.original.as_ref().unwrap().relation, "forward");
    assert!(sent[1].files.is_empty());
    assert_eq!(sent[2].files[0].content_type, "message/rfc822");
    assert_eq!(sent[2].draft.text.as_deref(), Some("See"));
}

#[test]
fn invalid_requests_are_refused() {
    for (mode, body, text) in [
        (Mode::Forward, "{}", "to must name at least one recipient"),
        (Mode::Reply, "", "Invalid JSON body"),
        (Mode::Reply, "[]", "The body must be an object"),
        (Mode::Reply, r#"{"locale": 1}"#, "locale must be a string"),
        (
            Mode::Reply,
            r#"{"to": []}"#,
            "to must name at least one recipient",
        ),
        (
            Mode::Reply,
            r#"{"subject": "a\nb"}"#,
            "subject must not have line breaks",
        ),
        (
            Mode::ReplyAll,
            r#"{"from": "Ada <ada@example.test>"}"#,
            "from must be one mail address without a name",
        ),
    ] {
        assert_eq!(refused(mode, body), (400, text.into()), "{body}");
    }
    let (status, _) = refused(Mode::Reply, r#"{"from": "eve@c.example"}"#);
    assert_eq!(status, 403);
}

#[test]
fn a_message_that_does_not_exist_or_cannot_be_read_is_not_answered() {
    let (host, uid) = host();
    let failed = |uid: u64| {
        let failure = reply(&host, &posted(uid, "{}")).unwrap_err();
        (failure.status, failure.text.into_owned())
    };
    assert_eq!(failed(99), (404, "Message not found".into()));
    assert_eq!(failed(0), (400, "Invalid message UID".into()));
    host.fail(Error::Unavailable);
    assert_eq!(failed(uid).0, 503);
    let (host, uid) = self::host();
    host.use_token(&[Scope::MailSend]);
    let failure = reply(&host, &posted(uid, "{}")).unwrap_err();
    assert_eq!(failure.status, 403);
}

#[test]
fn a_repeated_request_with_the_same_key_sends_nothing() {
    let (host, uid) = host();
    for replayed in [false, true] {
        let mut request = posted(uid, r#"{"text": "Yes"}"#);
        request.headers.push(("idempotency-key".into(), "k".into()));
        let reply = reply(&host, &request).unwrap();
        let header = ("idempotent-replayed".into(), "true".into());
        assert_eq!(reply.headers.contains(&header), replayed);
    }
    assert_eq!(host.sent().len(), 1);
}
