//! Conditional requests: `ETag`, `If-None-Match` and `If-Match`.

use latchmail_tests::{
    Imap, Person, RICH_MESSAGE, Response, Service, append_message, imap, store_flags, subjects,
};
use serde_json::{Value, json};

use super::message_changes::refused;

/// Sends a request with a header and perhaps a JSON body.
async fn with(person: &Person<'_>, line: &str, header: (&str, &str), body: &Value) -> Response {
    let request = person.service.request(line).bearer_auth(&person.access);
    let request = request.header(header.0, header.1);
    if body.is_null() {
        Response::of(request).await
    } else {
        Response::of_json(request, body).await
    }
}

async fn unless(person: &Person<'_>, path: &str, tags: &str) -> Response {
    let line = format!("GET {path}");
    with(person, &line, ("If-None-Match", tags), &Value::Null).await
}

#[track_caller]
fn etag(response: &Response) -> String {
    let tag = response.header("etag").unwrap();
    assert!(
        tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2,
        "{tag}"
    );
    tag.to_owned()
}

async fn current(person: &Person<'_>, path: &str) -> String {
    let response = person.send(&format!("GET {path}")).await;
    assert_eq!(response.status, 200);
    etag(&response)
}

/// Returns the changes of one message: the line of the request after the path, and the body.
fn changes() -> [(&'static str, &'static str, Value); 5] {
    [
        ("POST", "/flag", json!({ "flags": ["x"], "action": "add" })),
        ("PUT", "/flags", json!({ "flags": ["y"] })),
        ("POST", "/move", json!({ "destination": "Archive" })),
        ("POST", "/trash", json!({})),
        ("DELETE", "", Value::Null),
    ]
}

async fn client_with_message(person: &Person<'_>) -> (Imap, String) {
    let mut client = imap(person).await;
    append_message(&mut client, "INBOX", "one").await;
    let uid = person.uid_of("INBOX", "one").await;
    (client, format!("/api/v1/mail/messages/{uid}"))
}

#[tokio::test]
async fn a_message_is_returned_only_if_it_has_changed() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let (mut client, path) = client_with_message(&ada).await;
    let first = current(&ada, &path).await;
    assert_eq!(current(&ada, &path).await, first);
    for tags in [first.as_str(), &format!("\"other\" , W/{first}"), "*"] {
        let response = unless(&ada, &path, tags).await;
        assert_eq!((response.status, response.body.len()), (304, 0), "{tags}");
        assert_eq!(etag(&response), first);
        assert_eq!(response.header("content-type"), None);
    }
    for tags in ["\"other\"", "", "x", first.trim_matches('"')] {
        let response = unless(&ada, &path, tags).await;
        assert_eq!(
            (response.status, etag(&response)),
            (200, first.clone()),
            "{tags}"
        );
    }
    let mut tags = vec![first.clone()];
    store_flags(&mut client, "INBOX", 1, "+FLAGS (\\Flagged)").await;
    tags.push(current(&ada, &path).await);
    client.uid_mv("1", "Archive").await.unwrap();
    tags.push(current(&ada, &path).await);
    assert_eq!(unless(&ada, &path, &first).await.status, 200);
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3);
    // Another account, and a message that does not exist.
    let bob = service.person("bob").await;
    for missing in [
        unless(&bob, &path, "*").await,
        unless(&ada, "/api/v1/mail/messages/99999", &first).await,
    ] {
        refused(&missing, 404, "Message not found", "message_not_found");
    }

    ada.receive(RICH_MESSAGE).await;
    let uid = ada.newest().await["uid"].clone();
    let path = format!("/api/v1/mail/messages/{uid}/attachments/0");
    let first = current(&ada, &path).await;
    store_flags(&mut client, "INBOX", 2, "+FLAGS (\\Flagged)").await;
    assert_eq!(current(&ada, &path).await, first);
    assert_eq!(unless(&ada, &path, &first).await.status, 304);
    assert_eq!(unless(&ada, &path, "*").await.status, 304);
    let other = format!("/api/v1/mail/messages/{uid}/attachments/99");
    let missing = unless(&ada, &other, &first).await;
    refused(
        &missing,
        404,
        "Attachment not found",
        "attachment_not_found",
    );
}

#[tokio::test]
async fn a_message_that_has_changed_is_not_changed_again() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let (mut client, path) = client_with_message(&ada).await;
    let old = current(&ada, &path).await;
    store_flags(&mut client, "INBOX", 1, "+FLAGS (\\Flagged)").await;
    let new = current(&ada, &path).await;
    for (method, rest, body) in changes() {
        let line = format!("{method} {path}{rest}");
        for tags in [
            old.as_str(),
            &format!("W/{new}"),
            &format!("{old}, \"other\""),
            "x",
        ] {
            let response = with(&ada, &line, ("If-Match", tags), &body).await;
            refused(&response, 412, "The message has changed", "message_changed");
        }
    }
    assert_eq!(current(&ada, &path).await, new);
    assert_eq!(subjects(&mut client, "INBOX").await, ["one"]);
    for (method, rest, body) in changes() {
        let line = format!("{method} {path}{rest}");
        let tags = format!("{old}, {}", current(&ada, &path).await);
        let response = with(&ada, &line, ("If-Match", &tags), &body).await;
        assert_eq!(response.succeeds(200), json!({ "success": true }), "{line}");
    }
    let line = format!("DELETE {path}");
    let response = with(&ada, &line, ("If-Match", &new), &Value::Null).await;
    refused(&response, 404, "Message not found", "message_not_found");

    // A token without the right to read can use a version. `*` stands for any version.
    append_message(&mut client, "INBOX", "two").await;
    let uid = ada.uid_of("INBOX", "two").await;
    let path = format!("/api/v1/mail/messages/{uid}");
    let token = ada.token(&["mail:write"]).await;
    let token = token["token"].as_str().unwrap();
    let flag = json!({ "flags": ["x"] });
    for (tags, status) in [
        (format!("{old}, {}", current(&ada, &path).await), 200),
        (new, 412),
        ("*".to_owned(), 200),
    ] {
        let line = format!("PUT {path}/flags");
        let request = service.request(&line).bearer_auth(token);
        let response = Response::of_json(request.header("If-Match", &tags), &flag).await;
        assert_eq!(response.status, status, "{tags}");
    }
}
