//! The tools that change something: aliases, and sending if the operator allows agents to send.

use latchmail_sdk::capability::Scope;
use serde_json::json;

use super::client::{DEFAULT_SCOPES, call, endpoint, tool_error};

#[test]
fn aliases_are_listed_with_the_mailboxs_address() {
    let service = endpoint();
    let (created, text) = call(
        &service,
        "create_alias",
        json!({ "domain": "example.test", "name": "shop" }),
    );
    assert_eq!(created["alias"], "shop@example.test");
    assert!(text.contains("shop@example.test"));
    let (listed, _) = call(&service, "list_aliases", json!({}));
    assert_eq!(listed["mailbox"], "ada@example.test");
    assert_eq!(listed["aliases"][0]["address"], "shop@example.test");
    assert_eq!(
        (&listed["aliases"][0]["id"], &listed["aliases"][0]["active"]),
        (&created["id"], &json!(true))
    );
    assert!(listed.get("untrusted").is_none());
}

#[test]
fn an_alias_without_a_name_gets_a_random_one() {
    let service = endpoint();
    let create = || {
        call(
            &service,
            "create_alias",
            json!({ "domain": "example.test", "name": null }),
        )
        .0
    };
    let (first, second) = (create(), create());
    assert_ne!(first["alias"], second["alias"]);
    assert_eq!(
        first["alias"].as_str().unwrap().len(),
        "lusab-babad-gutih-tugad@example.test".len()
    );
}

#[test]
fn an_invalid_alias_has_the_error_messages_of_the_routes() {
    let service = endpoint();
    let error = |arguments| tool_error(&service, "create_alias", arguments);
    assert_eq!(error(json!({})), "domain is required");
    assert_eq!(error(json!({ "domain": "" })), "domain is required");
    assert_eq!(
        error(json!({ "domain": "example.test", "name": 7 })),
        "name must be a string"
    );
    assert!(!error(json!({ "domain": "elsewhere.example" })).is_empty());
    call(
        &service,
        "create_alias",
        json!({ "domain": "example.test", "name": "shop" }),
    );
    assert!(error(json!({ "domain": "example.test", "name": "shop" })).contains("taken"));
}

#[test]
fn a_message_is_sent_if_agents_are_allowed_to_send() {
    let service = endpoint();
    let scopes: Vec<_> = DEFAULT_SCOPES
        .into_iter()
        .chain([Scope::MailSend])
        .collect();
    service.host.use_grant(&scopes);
    let message = json!({
        "to": ["Grace <grace@example.org>", "bo@example.org"], "subject": "Hello", "text": "Hi", "inReplyTo": "<1@x>",
        "references": ["<0@x>", "<1@x>"], "idempotencyKey": "once",
    });
    let (sent, _) = call(&service, "send_message", message.clone());
    assert_eq!(sent["savedTo"], "Sent");
    assert_eq!(call(&service, "send_message", message).0, sent);
    let out = service.host.sent();
    assert_eq!(out.len(), 1);
    let sender = out[0].draft.from.as_ref().unwrap().address.as_str();
    assert_eq!((sender, out[0].draft.to.len()), ("ada@example.test", 2));
    assert_eq!(out[0].draft.in_reply_to.as_deref(), Some("<1@x>"));
    assert_eq!(out[0].draft.references, ["<0@x>", "<1@x>"]);
    for (fields, sentence) in [
        (json!({ "to": "a@b.example" }), "subject is required"),
        (
            json!({ "to": "a@b.example", "subject": "x", "idempotencyKey": "a b" }),
            "idempotencyKey must be 1 to 255 visible ASCII characters",
        ),
        (
            json!({ "to": "", "subject": "x" }),
            "to must name at least one recipient",
        ),
        (
            json!({ "to": "nobody", "subject": "x" }),
            "to must contain only mail addresses",
        ),
        (
            json!({ "to": "a@b.example", "subject": "a\nb" }),
            "subject must not have line breaks",
        ),
        (
            json!({ "to": "a@b.example", "subject": "x", "from": "bo@example.test" }),
            "You can only send from your own address or active aliases",
        ),
        (
            json!({ "to": "a@b.example", "subject": "x", "attachments": [] }),
            "Unknown field attachments; the known fields are from, to, cc, bcc, subject, text, html, inReplyTo, references, idempotencyKey",
        ),
    ] {
        assert_eq!(tool_error(&service, "send_message", fields), sentence);
    }
    assert_eq!(service.host.sent().len(), 1);
}
