//! Imports of messages.

use futures_util::TryStreamExt as _;
use latchmail_tests::{
    Person, Response, Service, forget_imports, imap, random_bytes, stored_messages,
};
use serde_json::{Value, json};

use crate::accounts::sharing::rules::Grant;
use crate::accounts::sharing::shared_mailbox::SharedMailbox;

const LETTER: &[u8] = b"Authentication-Results: mail.first.test; dmarc=pass header.from=outside.test\r\n\
    From: Grace <grace@outside.test>\r\nSubject: Imported\r\nDate: Thu, 19 Nov 2026 11:00:00 +0000\r\n\r\n\
    8-bit: \xe9\xff\r\nno line end";

/// Returns the response to an import. `path` is the path after `/api/v1/mail/folders/`.
async fn import(person: &Person<'_>, path: &str, key: &str, message: &[u8]) -> Response {
    let line = format!("POST /api/v1/mail/folders/{path}");
    let request = person.service.request(&line).bearer_auth(&person.access);
    let request = request.header("content-type", "message/rfc822");
    let request = match key {
        "" => request,
        key => request.header("idempotency-key", key),
    };
    Response::of(request.body(message.to_vec())).await
}

async fn raw(person: &Person<'_>, uid: &Value) -> Vec<u8> {
    let line = format!("GET /api/v1/mail/messages/{uid}/raw");
    person.send(&line).await.body
}

#[tokio::test]
async fn a_message_is_imported_unchanged() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let path = "INBOX/messages?flags=%5CSeen&flags=todo&receivedAt=2020-02-03T04:05:06%2B01:00";
    let imported = import(&ada, path, "", LETTER).await.succeeds(201);
    assert_eq!(
        imported,
        json!({ "uid": imported["uid"], "folder": "INBOX" })
    );
    let uid = imported["uid"].as_u64().unwrap();
    assert_eq!(raw(&ada, &imported["uid"]).await, LETTER);
    let message = ada.message(uid).await;
    assert_eq!(message["flags"], json!(["\\Seen", "todo"]));
    assert_eq!(
        message["authentication"],
        json!({ "result": "none", "domain": null })
    );

    // Another client sees the same message.
    let mut client = imap(&ada).await;
    let stored = stored_messages(&mut client, "INBOX").await;
    assert_eq!((stored.len(), stored[0].subject()), (1, "Imported".into()));
    let fetched = client
        .fetch("1", "(FLAGS INTERNALDATE BODY.PEEK[])")
        .await
        .unwrap();
    let fetched: Vec<_> = fetched.try_collect().await.unwrap();
    assert_eq!(fetched[0].body(), Some(LETTER));
    let received = fetched[0].internal_date().unwrap();
    assert_eq!(received.timestamp(), 1_580_699_106);

    // A message without a body, a long header field, and lines of any length.
    let large = [b"Subject: Large\r\n\r\n", &*random_bytes(2 * 1024 * 1024)].concat();
    let large: Vec<u8> = large.into_iter().map(|byte| byte.max(1)).collect();
    let large: Vec<u8> = large.into_iter().filter(|byte| *byte != b'\n').collect();
    let large = [b"Subject: Large\r\n\r\n", &large[..]].concat();
    for message in [&b"A:"[..], b"Subject: Bare\r\n\r\na\rb", &large] {
        let imported = import(&ada, "INBOX/messages", "", message)
            .await
            .succeeds(201);
        assert!(raw(&ada, &imported["uid"]).await == message);
    }
    // Dovecot returns each line end as CRLF.
    let imported = import(&ada, "INBOX/messages", "", b"Subject: a\n\nb\n")
        .await
        .succeeds(201);
    assert_eq!(
        raw(&ada, &imported["uid"]).await,
        b"Subject: a\r\n\r\nb\r\n"
    );
}

#[tokio::test]
async fn invalid_imports_store_nothing() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    for message in ["", "\r\nA: b", "Hello.", "From ada Thu Nov 19\r\nA: b\r\n"] {
        let refused = import(&ada, "INBOX/messages", "", message.as_bytes()).await;
        refused.fails(400, "Invalid message");
    }
    let nul = import(&ada, "INBOX/messages", "", b"A: b\r\n\r\n\0").await;
    nul.fails(400, "Invalid message: it contains a NUL byte");
    for (query, text) in [
        ("flags=%5CDeleted", "Invalid flag data"),
        ("flags=", "Invalid flag data"),
        ("receivedAt=today", "Invalid receivedAt"),
        ("receivedAt=1969-12-31T00:00:00Z", "Invalid receivedAt"),
    ] {
        let path = format!("INBOX/messages?{query}");
        import(&ada, &path, "", LETTER).await.fails(400, text);
    }
    let key = "a".repeat(256);
    let refused = import(&ada, "INBOX/messages", &key, LETTER).await;
    refused.fails(
        400,
        "Idempotency-Key must be 1 to 255 visible ASCII characters",
    );
    let missing = import(&ada, "Missing/messages", "", LETTER).await;
    missing.fails(404, "Folder not found");
    let large = vec![b'a'; 50 * 1024 * 1024 + 1];
    assert_eq!(import(&ada, "INBOX/messages", "", &large).await.status, 413);
    let token = ada.token(&["mail:read", "mail:send"]).await;
    let line = "POST /api/v1/mail/folders/INBOX/messages";
    let refused = service
        .with_bearer(line, token["token"].as_str().unwrap())
        .await;
    refused.fails(403, "This credential is missing the \"mail:write\" scope");
    assert_eq!(ada.total("INBOX").await, 0);
}

#[tokio::test]
async fn a_repeated_import_stores_one_message() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let first = import(&ada, "INBOX/messages", "key", LETTER).await;
    assert!(first.header("idempotent-replayed").is_none());
    let again = import(&ada, "INBOX/messages", "key", LETTER).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.succeeds(201), first.succeeds(201));
    for (path, message) in [
        ("INBOX/messages?flags=%5CSeen", LETTER),
        ("Archive/messages", LETTER),
        ("INBOX/messages", &b"Subject: another\r\n\r\n"[..]),
    ] {
        let refused = import(&ada, path, "key", message).await;
        refused.fails(409, "This Idempotency-Key was used for another message");
    }
    // An invalid request does not use its key. The keys of other accounts are different keys.
    import(&ada, "INBOX/messages", "other", b"")
        .await
        .fails(400, "Invalid message");
    import(&ada, "Missing/messages", "other", LETTER)
        .await
        .fails(404, "Folder not found");
    import(&ada, "INBOX/messages", "other", LETTER)
        .await
        .succeeds(201);
    let bob = service.person("bob").await;
    let own = import(&bob, "INBOX/messages", "key", LETTER).await;
    assert!(own.header("idempotent-replayed").is_none());
    own.succeeds(201);
    // Concurrent requests with the same key.
    let imports = (0..4).map(|_| import(&ada, "INBOX/messages", "at-once", LETTER));
    for response in futures_util::future::join_all(imports).await {
        assert!(matches!(response.status, 201 | 409), "{}", response.json);
    }
    assert_eq!((ada.total("INBOX").await, bob.total("INBOX").await), (3, 1));
}

#[tokio::test]
async fn a_repeated_import_with_an_unknown_outcome_finds_the_message() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let bare = b"Subject: Bare\n\nline\n";
    let mut uids = Vec::new();
    for (key, message) in [("one", LETTER), ("two", &bare[..])] {
        let stored = import(&ada, "INBOX/messages", key, message)
            .await
            .succeeds(201);
        uids.push(stored["uid"].clone());
    }
    // The host stopped before it recorded the outcome.
    forget_imports(&service).await;
    for (index, (key, message)) in [("one", LETTER), ("two", &bare[..])]
        .into_iter()
        .enumerate()
    {
        let again = import(&ada, "INBOX/messages", key, message).await;
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.succeeds(201)["uid"], uids[index]);
    }
    assert_eq!(ada.total("INBOX").await, 2);
    // If the message was not stored, the repeated request stores it.
    ada.delete(uids[0].as_u64().unwrap()).await.succeeds(200);
    forget_imports(&service).await;
    let again = import(&ada, "INBOX/messages", "one", LETTER).await;
    assert!(again.header("idempotent-replayed").is_none());
    again.succeeds(201);
    assert_eq!(ada.total("INBOX").await, 2);
}

#[tokio::test]
async fn a_member_imports_only_into_folders_that_it_may_change() {
    let service = Service::with_mail().await;
    let shared = SharedMailbox::new(&service).await;
    let alpha = shared.folder("Alpha").await;
    let grant = Grant::on("folder", &alpha, &["mail:read"]);
    shared.invite("bob", &grant).await.succeeds(201);
    let within = |folder: &str| shared.within(&format!("{folder}/messages"));
    let refused = import(&shared.bob, &within("Alpha"), "", LETTER).await;
    assert_eq!(refused.status, 403, "{}", refused.json);
    let hidden = import(&shared.bob, &within("Beta"), "", LETTER).await;
    hidden.fails(404, "Folder not found");
    let rights = Grant::on("folder", &alpha, &["mail:read", "mail:write"]);
    shared.grant(&rights).await;
    let imported = import(&shared.bob, &within("Alpha"), "", LETTER)
        .await
        .succeeds(201);
    let uid = imported["uid"].as_u64().unwrap();
    assert_eq!(shared.ada.message(uid).await["subject"], "Imported");
}
