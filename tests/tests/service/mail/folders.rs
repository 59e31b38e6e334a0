//! Creating, renaming and deleting folders. Another IMAP client checks the results.

use futures_util::TryStreamExt as _;
use latchmail_tests::{
    Imap, MailboxCopy, Person, Response, Service, append_message, imap, stored_messages, subjects,
};
use serde_json::{Value, json};

const FOLDERS: &str = "/api/v1/mail/folders";

async fn create(person: &Person<'_>, path: &str) -> Response {
    person.post(FOLDERS, &json!({ "path": path })).await
}

async fn rename(person: &Person<'_>, folder: &str, path: &str) -> Response {
    let line = format!("PATCH {FOLDERS}/{folder}");
    person.send_json(&line, &json!({ "path": path })).await
}

async fn delete(person: &Person<'_>, folder_and_query: &str) -> Response {
    person
        .send(&format!("DELETE {FOLDERS}/{folder_and_query}"))
        .await
}

/// Returns the names of the subscribed folders that begin with `prefix`.
async fn subscribed(client: &mut Imap, prefix: &str) -> Vec<String> {
    let names = client.lsub(Some(""), Some("*")).await.unwrap();
    let names: Vec<_> = names.try_collect().await.unwrap();
    let mut names: Vec<String> = names.iter().map(|name| name.name().to_owned()).collect();
    names.retain(|name| name.starts_with(prefix));
    names.sort_unstable();
    names
}

#[tokio::test]
async fn folders_are_created_renamed_and_deleted_for_every_client() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let mut copy = MailboxCopy::of(&ada).await;
    let created = create(&ada, "Work/Entwürfe").await.succeeds(201);
    let id = created["id"].clone();
    let expected = json!({
        "id": id, "path": "Work/Entwürfe", "name": "Entwürfe", "delimiter": "/",
        "messages": 0, "unseen": 0,
    });
    assert_eq!(created, expected);
    let names = ["Work", "Work/Entw&APw-rfe"];
    assert_eq!(subscribed(&mut client, "Work").await, names);
    append_message(&mut client, "Work/Entw&APw-rfe", "one").await;
    let uid = ada.uid_of("Work%2FEntw%C3%BCrfe", "one").await;
    copy.update(&ada, || 500).await;
    assert_eq!(copy.content(), ada.content().await);

    let work = ada.folder_id("Work").await;
    let renamed = rename(&ada, "Work", "Play/Fun").await.succeeds(200);
    assert_eq!(
        (&renamed["path"], &renamed["id"]),
        (&json!("Play/Fun"), &json!(work))
    );
    assert_eq!(
        ada.folder_id("Play/Fun/Entwürfe").await,
        id.as_str().unwrap()
    );
    assert_eq!(ada.uids("Play%2FFun%2FEntw%C3%BCrfe").await, [uid]);
    let names = ["Play", "Play/Fun", "Play/Fun/Entw&APw-rfe"];
    assert_eq!(subscribed(&mut client, "Play").await, names);
    assert!(subscribed(&mut client, "Work").await.is_empty());
    let changes: Vec<Value> = copy.update(&ada, || 500).await;
    assert_eq!(copy.content(), ada.content().await, "{changes:?}");
    let found = changes
        .iter()
        .filter(|change| change["type"] == "folderRenamed");
    assert_eq!(found.count(), 2, "{changes:?}");

    let refused = delete(&ada, "Play%2FFun").await;
    refused.fails(409, "Folder is not empty");
    let refused = ada.send("DELETE /api/v1/mail/folders/Play%2FFun?messages=delete");
    refused.await.fails(409, "Folder has subfolders");
    let drafts = "Play%2FFun%2FEntw%C3%BCrfe";
    delete(&ada, drafts).await.fails(409, "Folder is not empty");
    let done = json!({ "success": true });
    let trash = delete(&ada, &format!("{drafts}?messages=trash")).await;
    assert_eq!(trash.succeeds(200), done);
    assert_eq!(ada.uids("Trash").await, [uid]);
    assert_eq!(subjects(&mut client, "Trash").await, ["one"]);
    append_message(&mut client, "Play/Fun", "two").await;
    let gone = ada.uid_of("Play%2FFun", "two").await;
    let deleted = delete(&ada, "Play%2FFun?messages=delete").await;
    assert_eq!(deleted.succeeds(200), done);
    let missing = ada.send(&format!("GET /api/v1/mail/messages/{gone}")).await;
    missing.fails(404, "Message not found");
    delete(&ada, "Play").await.succeeds(200);
    assert!(subscribed(&mut client, "Play").await.is_empty());
    copy.update(&ada, || 500).await;
    assert_eq!(copy.content(), ada.content().await);
    assert_eq!(stored_messages(&mut client, "INBOX").await.len(), 0);
}

#[tokio::test]
async fn folders_with_a_role_names_that_are_taken_and_invalid_requests_are_refused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    create(&ada, "Work").await.succeeds(201);
    let role = "This folder has a role and cannot be changed";
    for folder in ["INBOX", "inbox", "Sent", "Drafts", "Trash"] {
        rename(&ada, folder, "Other").await.fails(409, role);
        for query in ["", "?messages=trash", "?messages=delete"] {
            delete(&ada, &format!("{folder}{query}"))
                .await
                .fails(409, role);
        }
    }
    for taken in ["Work", "INBOX", "Inbox", "Sent"] {
        create(&ada, taken)
            .await
            .fails(409, "Folder already exists");
    }
    create(&ada, "Play").await.succeeds(201);
    let refused = rename(&ada, "Work", "Play").await;
    refused.fails(409, "Folder already exists");
    let invalid = "Invalid folder path";
    let long = "x".repeat(2001);
    for path in [
        "", "/", "a//b", "/a", "a/", "a/../b", "a\nb", "a\u{0}", "~a", &long,
    ] {
        create(&ada, path).await.fails(400, invalid);
        rename(&ada, "Work", path).await.fails(400, invalid);
    }
    rename(&ada, "Work", "Work/below").await.fails(400, invalid);
    for body in [
        json!({}),
        json!({ "path": 1 }),
        json!({ "path": null }),
        json!([]),
    ] {
        ada.post(FOLDERS, &body).await.fails(400, invalid);
        let line = format!("PATCH {FOLDERS}/Work");
        ada.send_json(&line, &body).await.fails(400, invalid);
    }
    for query in ["?messages=", "?messages=keep", "?messages=Trash"] {
        let refused = delete(&ada, &format!("Work{query}")).await;
        refused.fails(400, "Invalid messages parameter");
    }
    let missing = "Folder not found";
    rename(&ada, "Nowhere", "Other").await.fails(404, missing);
    delete(&ada, "Nowhere").await.fails(404, missing);

    // A token may change folders only with the scope `mail:write`, and only those of its account.
    for (scopes, status) in [
        (["mail:write"], 201),
        (["mail:read"], 403),
        (["mail:send"], 403),
    ] {
        let token = ada.token(&scopes).await;
        let request = service.request(&format!("POST {FOLDERS}"));
        let request = request.bearer_auth(token["token"].as_str().unwrap());
        let path = json!({ "path": format!("By {}", scopes[0]) });
        assert_eq!(Response::of_json(request, &path).await.status, status);
    }
    let bob = service.person("bob").await;
    delete(&bob, "Work").await.fails(404, missing);
    rename(&bob, "Work", "Mine").await.fails(404, missing);

    // Without a limit of the mail server, there is no quota.
    let none = json!({ "used": null, "limit": null });
    let quota = ada.send("GET /api/v1/mail/quota").await.succeeds(200);
    assert_eq!(quota, json!({ "storage": none, "messages": none }));
}
