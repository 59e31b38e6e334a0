//! Drafts: the routes, and drafts that other IMAP clients edit.

mod mail_clients;
mod sending;
mod two_writers;

use latchmail_tests::{Imap, Person, Response, Service, StoredMessage, imap, stored_messages};
use serde_json::{Value, json};

use crate::accounts::sharing::rules::Grant;
use crate::accounts::sharing::shared_mailbox::SharedMailbox;

const DRAFTS: &str = "/api/v1/mail/drafts";

/// Stores a new draft, which must succeed.
async fn create(person: &Person<'_>, draft: &Value) -> Value {
    person.post(DRAFTS, draft).await.succeeds(201)
}

async fn get(person: &Person<'_>, id: &Value) -> Response {
    person.send(&line("GET", id)).await
}

/// Sends a request with a JSON body and a header.
async fn with_header(
    person: &Person<'_>,
    line: &str,
    (name, value): (&str, &str),
    body: &Value,
) -> Response {
    let request = person.service.request(line).bearer_auth(&person.access);
    let request = request.header(name, value);
    if !line.starts_with("PUT ") {
        return Response::of(request).await;
    }
    Response::of_json(request, body).await
}

async fn put(person: &Person<'_>, id: &Value, version: &Value, draft: &Value) -> Response {
    let tag = format!("\"{}\"", version.as_str().unwrap());
    with_header(person, &line("PUT", id), ("if-match", &tag), draft).await
}

async fn list(person: &Person<'_>) -> Vec<Value> {
    let listed = person.send(&format!("GET {DRAFTS}")).await.succeeds(200);
    let drafts = listed["drafts"].as_array().unwrap().clone();
    assert_eq!(listed["total"], drafts.len());
    drafts
}

fn line(method: &str, id: &Value) -> String {
    format!("{method} {DRAFTS}/{}", id.as_str().unwrap())
}

/// Returns the only message in Drafts.
async fn only_message(client: &mut Imap) -> StoredMessage {
    let mut stored = stored_messages(client, "Drafts").await;
    assert_eq!(stored.len(), 1, "{stored:?}");
    stored.remove(0)
}

#[tokio::test]
async fn a_draft_is_a_message_in_drafts_that_every_client_sees() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let draft = json!({
        "from": "ada@first.test", "fromName": "Ada",
        "to": "Bo <bo@outside.test>, gra", "cc": ["\"Last, First\" <last@outside.test>"],
        "bcc": "secret@outside.test", "replyTo": "half@",
        "subject": "Grüße =?utf-8?Q?x?=", "text": "a\n\u{e4}  \nend", "html": "<p>a</p>",
        "inReplyTo": "<1@outside.test>", "references": "<0@outside.test> <1@outside.test>",
        "headers": [{ "name": "X-Kind", "value": "note" }],
        "attachments": [{ "filename": "a.txt", "contentType": "text/csv", "content": "YSxi" }],
    });
    let created = create(&ada, &draft).await;
    let fields: Vec<&String> = created.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["draft", "id", "uid", "version"]);
    let content = &created["draft"];
    let attachment = json!({
        "uid": created["uid"], "index": 0, "filename": "a.txt", "contentType": "text/csv",
        "size": 3, "inline": false,
    });
    assert_eq!(
        *content,
        json!({
            "from": "ada@first.test", "fromName": "Ada",
            "to": ["Bo <bo@outside.test>", "gra"],
            "cc": ["\"Last, First\" <last@outside.test>"],
            "bcc": ["secret@outside.test"], "replyTo": ["half@"],
            "subject": "Grüße =?utf-8?Q?x?=", "text": "a\n\u{e4}  \nend", "html": "<p>a</p>",
            "inReplyTo": "<1@outside.test>", "references": ["<0@outside.test>", "<1@outside.test>"],
            "headers": [{ "name": "X-Kind", "value": "note" }],
            "attachments": [attachment],
        })
    );
    let id = &created["id"];
    let read = get(&ada, id).await;
    let tag = format!("\"{}\"", created["version"].as_str().unwrap());
    assert_eq!(read.header("etag").unwrap(), tag);
    assert_eq!(read.succeeds(200), created);
    assert_eq!(list(&ada).await, std::slice::from_ref(&created));
    let unchanged = with_header(&ada, &line("GET", id), ("if-none-match", &tag), &json!({})).await;
    assert_eq!(unchanged.status, 304);

    // Another client sees the message.
    let stored = only_message(&mut client).await;
    assert!(stored.flags.contains("\\Draft") && stored.flags.contains("\\Seen"));
    assert_eq!(stored.header("bcc").unwrap(), "secret@outside.test");
    assert_eq!(
        stored.header("x-latchmail-draft-id").as_deref(),
        id.as_str()
    );
    assert_eq!(ada.uids("Drafts").await, [created["uid"].as_u64().unwrap()]);

    // A client can store what it got.
    let replaced = put(&ada, id, &created["version"], content).await;
    let replaced = replaced.succeeds(200);
    assert_eq!(replaced["id"], *id);
    assert_ne!(replaced["version"], created["version"]);
    let mut expected = content.clone();
    expected["attachments"][0]["uid"] = replaced["uid"].clone();
    assert_eq!(replaced["draft"], expected);
    let again = only_message(&mut client).await;
    assert_eq!(again.header("message-id"), stored.header("message-id"));
    assert_eq!(get(&ada, id).await.succeeds(200), replaced);

    // The old version can neither replace nor delete the draft.
    let stale = put(&ada, id, &created["version"], &json!({ "subject": "x" })).await;
    stale.fails(412, "The message has changed");
    let stale = with_header(&ada, &line("DELETE", id), ("if-match", &tag), &json!({})).await;
    stale.fails(412, "The message has changed");
    let missing = ada.send_json(&line("PUT", id), &json!({})).await;
    missing.fails(428, "The header If-Match is required");
    assert_eq!(get(&ada, id).await.succeeds(200), replaced);
    ada.send(&line("DELETE", id)).await.succeeds(200);
    get(&ada, id).await.fails(404, "Draft not found");
    ada.send(&line("DELETE", id))
        .await
        .fails(404, "Draft not found");
    let gone = put(&ada, id, &replaced["version"], &json!({})).await;
    gone.fails(404, "Draft not found");
    assert!(stored_messages(&mut client, "Drafts").await.is_empty());
}

#[tokio::test]
async fn every_text_comes_back_unchanged() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let texts = ["a", "a\n\n", "\u{e4}\n"];
    for text in texts {
        for more in [json!({}), json!({ "html": text }), json!({ "files": true })] {
            let mut draft = json!({ "text": text });
            if more["html"].is_string() {
                draft["html"] = text.into();
            }
            if more["files"].is_boolean() {
                draft["attachments"] = json!([{ "filename": "a", "content": "YQ==" }]);
            }
            let created = create(&ada, &draft).await;
            let read = get(&ada, &created["id"]).await.succeeds(200);
            assert_eq!(read["draft"]["text"], text, "{draft}");
            assert_eq!(read["draft"]["html"], draft["html"], "{draft}");
            assert_eq!(read, created);
            ada.send(&line("DELETE", &created["id"]))
                .await
                .succeeds(200);
        }
    }
    for unfinished in ["gra", "Bo <bo", "Gr\u{e4}ce", "a@b@c"] {
        let created = create(&ada, &json!({ "to": unfinished, "from": unfinished })).await;
        let read = get(&ada, &created["id"]).await.succeeds(200);
        assert_eq!(read["draft"]["to"], json!([unfinished]));
        assert_eq!(read["draft"]["from"], unfinished);
        let sent = ada
            .send(&format!("{}/send", line("POST", &created["id"])))
            .await;
        assert_eq!(sent.status, 400, "{unfinished}");
        let draft = json!({ "to": "bob@first.test", "from": "ada@first.test" });
        let replaced = put(&ada, &created["id"], &created["version"], &draft).await;
        assert_eq!(
            replaced.succeeds(200)["draft"]["to"],
            json!(["bob@first.test"])
        );
        ada.send(&line("DELETE", &created["id"]))
            .await
            .succeeds(200);
    }
    assert!(list(&ada).await.is_empty());
    // Input that no message can contain.
    for (field, value) in [
        ("subject", json!("a\r\nBcc: x@outside.test")),
        ("to", json!("a\r\nBcc: x@outside.test")),
        ("to", json!(7)),
        ("headers", json!([{ "name": "Bcc", "value": "x" }])),
        (
            "headers",
            json!([{ "name": "X-Latchmail-Draft-Id", "value": "x" }]),
        ),
        ("attachments", json!([{ "filename": "a" }])),
        ("attachments", json!([{ "filename": "a", "content": "*" }])),
    ] {
        let refused = ada.post(DRAFTS, &json!({ field: value })).await;
        assert_eq!(refused.status, 400, "{field}: {}", refused.json);
    }
    let missing = json!({ "attachments": [{ "uploadId": "none" }] });
    ada.post(DRAFTS, &missing)
        .await
        .fails(404, "Upload not found");
    let missing = json!({ "attachments": [{ "uid": 999_999, "index": 0 }] });
    ada.post(DRAFTS, &missing)
        .await
        .fails(404, "Attachment not found");
    ada.post_raw(DRAFTS, "{")
        .await
        .fails(400, "Invalid JSON body");
    for query in ["page=0", "limit=101", "limit=x"] {
        let refused = ada.send(&format!("GET {DRAFTS}?{query}")).await;
        refused.fails(400, "Invalid paging parameters");
    }
    for id in ["none", "0123456789abcdef0123456789abcdef"] {
        let missing = ada.send(&format!("GET {DRAFTS}/{id}")).await;
        missing.fails(404, "Draft not found");
    }
    assert!(list(&ada).await.is_empty());
}

#[tokio::test]
async fn scopes_members_and_other_accounts_are_separate() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let ada = &shared.ada;
    let created = create(
        ada,
        &json!({ "subject": "One", "from": "ada@first.test", "to": "x" }),
    )
    .await;
    let id = &created["id"];
    let read = line("GET", id);
    let sending = format!("{}/send", line("POST", id));

    // Another account.
    shared.bob.send(&read).await.fails(404, "Draft not found");
    shared
        .bob
        .send(&sending)
        .await
        .fails(404, "Draft not found");

    // Tokens.
    for (scope, statuses) in [
        ("mail:read", [200, 403, 403, 403]),
        ("mail:write", [403, 201, 428, 403]),
        ("mail:send", [403, 403, 403, 403]),
        ("profile:read", [403, 403, 403, 403]),
    ] {
        let token = ada.token(&[scope]).await;
        let secret = token["token"].as_str().unwrap();
        let send = |line: String| {
            let request = service.request(&line).bearer_auth(secret);
            async move {
                match line.split(' ').next() {
                    Some("GET") => Response::of(request).await,
                    _ => Response::of_json(request, &json!({ "subject": "By token" })).await,
                }
            }
        };
        let lines = [
            read.clone(),
            format!("POST {DRAFTS}"),
            line("PUT", id),
            sending.clone(),
        ];
        for (line, expected) in lines.into_iter().zip(statuses) {
            let response = send(line.clone()).await;
            assert_eq!(
                response.status, expected,
                "{scope}: {line}: {}",
                response.json
            );
        }
    }
    let uid = shared.append("Alpha", "source").await;
    let ada = &shared.ada;
    let token = ada.token(&["mail:write"]).await;
    let request = service.request(&format!("POST {DRAFTS}"));
    let request = request.bearer_auth(token["token"].as_str().unwrap());
    let body = json!({ "attachments": [{ "uid": uid, "index": 0 }] });
    let refused = Response::of_json(request, &body).await;
    assert_eq!(refused.status, 403, "{}", refused.json);

    // A member without a grant on Drafts does not learn that drafts exist.
    let alpha = shared.folder("Alpha").await;
    let grant = Grant::on("folder", &alpha, &["mail:read", "mail:write"]);
    shared.invite("bob", &grant).await.succeeds(201);
    let hidden = shared.send(&shared.bob, &read).await;
    hidden.fails(404, "Draft not found");
    let listed = shared.send(&shared.bob, &format!("GET {DRAFTS}")).await;
    assert_eq!(listed.succeeds(200), json!({ "drafts": [], "total": 0 }));
    let new = json!({ "subject": "By Bob" });
    let post = format!("POST {DRAFTS}");
    let refused = shared.send_json(&shared.bob, &post, &new).await;
    assert_eq!(refused.status, 403, "{}", refused.json);

    // A member who can read drafts cannot change them.
    let drafts = shared.folder("Drafts").await;
    let reading = shared
        .grant(&Grant::on("folder", &drafts, &["mail:read"]))
        .await;
    let seen = shared.send(&shared.bob, &read).await.succeeds(200);
    assert_eq!(seen["draft"]["subject"], "One");
    let refused = shared.send_json(&shared.bob, &post, &new).await;
    assert_eq!(refused.status, 403, "{}", refused.json);
    let refused = shared.send(&shared.bob, &line("DELETE", id)).await;
    assert_eq!(refused.status, 403, "{}", refused.json);
    let refused = shared.send(&shared.bob, &sending).await;
    assert_eq!(refused.status, 403, "{}", refused.json);

    shared.change(&reading, &["mail:read", "mail:write"]).await;
    let by_bob = shared.send_json(&shared.bob, &post, &new).await;
    let by_bob = by_bob.succeeds(201);
    let seen = get(&shared.ada, &by_bob["id"]).await.succeeds(200);
    assert_eq!(seen["draft"]["subject"], "By Bob");
    // Bob has no grant to send from Ada's address.
    let finished = json!({ "from": "ada@first.test", "to": "bob@first.test", "subject": "x" });
    let replaced = put(&shared.ada, id, &created["version"], &finished).await;
    replaced.succeeds(200);
    let refused = shared.send(&shared.bob, &sending).await;
    assert_eq!(refused.status, 403, "{}", refused.json);
    shared
        .send(&shared.bob, &line("DELETE", id))
        .await
        .succeeds(200);
    get(&shared.ada, id).await.fails(404, "Draft not found");
}
