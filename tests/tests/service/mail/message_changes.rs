//! Copying messages, replacing their flags, and moving them to Trash and back. Conditional requests
//! are in `conditions`.
//!
//! Another IMAP client checks the result of a change, not only the API.

use std::collections::BTreeSet;

use latchmail_tests::{
    Imap, Person, Response, Service, append_message, imap, store_flags, stored_messages, subjects,
};
use serde_json::{Value, json};

const NOTHING: [&str; 0] = [];

/// Asserts a failure with this status, text and code.
#[track_caller]
pub(super) fn refused(response: &Response, status: u16, text: &str, code: &str) {
    let (error, found) = (&response.json["error"], &response.json["code"]);
    assert_eq!(
        (response.status, error, found),
        (status, &json!(text), &json!(code))
    );
}

#[track_caller]
fn done(response: Response) {
    assert_eq!(response.succeeds(200), json!({ "success": true }));
}

#[track_caller]
fn counted(response: Response, count: usize) {
    let expected = json!({ "success": true, "count": count });
    assert_eq!(response.succeeds(200), expected);
}

async fn change(person: &Person<'_>, uid: u64, action: &str, body: &Value) -> Response {
    let path = format!("/api/v1/mail/messages/{uid}/{action}");
    person.post(&path, body).await
}

async fn bulk(person: &Person<'_>, action: &str, body: &Value) -> Response {
    let path = format!("/api/v1/mail/messages/bulk/{action}");
    person.post(&path, body).await
}

async fn put_flags(person: &Person<'_>, uid: u64, flags: &Value) -> Response {
    let line = format!("PUT /api/v1/mail/messages/{uid}/flags");
    person.send_json(&line, &json!({ "flags": flags })).await
}

/// Puts a message into a folder, and returns its number.
async fn append(person: &Person<'_>, client: &mut Imap, folder: &str, subject: &str) -> u64 {
    append_message(client, folder, subject).await;
    person.uid_of(folder, subject).await
}

/// Returns the flags of the message with this subject, as another client sees them.
async fn flags_of(client: &mut Imap, folder: &str, subject: &str) -> BTreeSet<String> {
    let stored = stored_messages(client, folder).await;
    let message = stored.into_iter().find(|m| m.subject() == subject);
    message.unwrap().flags
}

fn set(flags: &[&str]) -> BTreeSet<String> {
    flags.iter().map(|&flag| flag.to_owned()).collect()
}

#[tokio::test]
async fn messages_are_restored_from_trash_to_their_folders_on_any_host() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("Work").await.unwrap();
    let one = append(&ada, &mut client, "Work", "one").await;
    let two = append(&ada, &mut client, "Work", "two").await;
    let three = append(&ada, &mut client, "INBOX", "three").await;
    done(change(&ada, one, "trash", &json!({})).await);
    // Another client moves a message to Trash.
    client.select("Work").await.unwrap();
    client.uid_mv("2", "Trash").await.unwrap();
    counted(
        bulk(&ada, "trash", &json!({ "uids": [three, 99999] })).await,
        2,
    );
    // A second request for the same message changes nothing.
    let line = format!("POST /api/v1/mail/messages/{one}/trash");
    let again = ada.send(&line);
    done(again.await);
    assert_eq!(subjects(&mut client, "Work").await, NOTHING);
    assert_eq!(subjects(&mut client, "Trash").await.len(), 3);
    client.rename("Work", "Play").await.unwrap();
    let other = service.another_host().await;
    let line = format!("POST /api/v1/mail/messages/{one}/restore");
    done(other.with_bearer(&line, &ada.access).await);
    assert_eq!(subjects(&mut client, "Play").await, ["one"]);
    assert_eq!(ada.uid_of("Play", "one").await, one);
    other.stop().await;
    let refusal = (409, "The message is not in Trash", "message_not_in_trash");
    let response = change(&ada, one, "restore", &json!({})).await;
    refused(&response, refusal.0, refusal.1, refusal.2);
    let response = bulk(&ada, "restore", &json!({ "uids": [one] })).await;
    refused(&response, refusal.0, refusal.1, refusal.2);
    // The folder of a message does not exist any longer.
    client.select("INBOX").await.unwrap();
    done(change(&ada, one, "trash", &json!({})).await);
    client.delete("Play").await.unwrap();
    let uids = json!({ "uids": [two, three, one, one, 99999] });
    counted(bulk(&ada, "restore", &uids).await, 3);
    let mut inbox = subjects(&mut client, "INBOX").await;
    inbox.sort();
    assert_eq!(inbox, ["one", "three", "two"]);
    assert_eq!(subjects(&mut client, "Trash").await, NOTHING);
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one service and many steps")]
async fn a_copy_is_a_new_message_and_flags_are_replaced() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let one = append(&ada, &mut client, "INBOX", "one").await;
    let two = append(&ada, &mut client, "INBOX", "two").await;
    store_flags(&mut client, "INBOX", 1, "+FLAGS (\\Deleted old \\Flagged)").await;
    done(put_flags(&ada, one, &json!(["\\Seen", "new", "\\Recent"])).await);
    let flags = flags_of(&mut client, "INBOX", "one").await;
    assert_eq!(flags, set(&["\\Deleted", "\\Seen", "new"]));
    done(put_flags(&ada, one, &json!([])).await);
    assert_eq!(
        flags_of(&mut client, "INBOX", "one").await,
        set(&["\\Deleted"])
    );
    done(put_flags(&ada, two, &json!(["$Important"])).await);

    let cursor = ada.changes("", "").await.succeeds(200)["cursor"].clone();
    let copied = change(&ada, two, "copy", &json!({ "destination": "Archive" })).await;
    let copied = copied.succeeds(201);
    let copy = copied["uid"].as_u64().unwrap();
    assert_eq!(copied, json!({ "uid": copy }));
    assert_ne!(copy, two);
    assert_eq!(subjects(&mut client, "Archive").await, ["two"]);
    assert_eq!(
        flags_of(&mut client, "Archive", "two").await,
        set(&["$Important"])
    );
    assert_eq!(ada.uids("Archive").await, [copy]);
    let changes = ada
        .changes(cursor.as_str().unwrap(), "")
        .await
        .succeeds(200);
    assert_eq!(changes["changes"].as_array().unwrap().len(), 1, "{changes}");
    assert_eq!(changes["changes"][0]["type"], "created");
    assert_eq!(changes["changes"][0]["uid"], copy);
    let body = json!({ "uids": [one, two, two, 99999], "destination": "Archive" });
    counted(bulk(&ada, "copy", &body).await, 2);
    assert_eq!(
        subjects(&mut client, "Archive").await,
        ["two", "one", "two"]
    );
    assert_eq!(subjects(&mut client, "INBOX").await, ["one", "two"]);

    // Invalid requests.
    let nowhere = change(&ada, one, "copy", &json!({ "destination": "Nowhere" })).await;
    refused(&nowhere, 404, "Folder not found", "folder_not_found");
    for body in [
        json!({}),
        json!({ "destination": "" }),
        json!({ "destination": 1 }),
    ] {
        let response = change(&ada, one, "copy", &body).await;
        refused(&response, 400, "Invalid copy data", "invalid_copy_data");
    }
    for flags in [json!(null), json!(["\\Deleted"]), json!(["a b"])] {
        let response = put_flags(&ada, one, &flags).await;
        refused(&response, 400, "Invalid flag data", "invalid_flag_data");
    }
    for action in ["copy", "trash", "restore"] {
        let body = json!({ "destination": "Archive" });
        let path = format!("/api/v1/mail/messages/0/{action}");
        let response = ada.post(&path, &body);
        refused(
            &response.await,
            400,
            "Invalid message UID",
            "invalid_message_uid",
        );
        let missing = change(&ada, 99999, action, &body).await;
        refused(&missing, 404, "Message not found", "message_not_found");
        let body = json!({ "uids": [], "destination": "Archive" });
        let response = bulk(&ada, action, &body).await;
        refused(
            &response,
            400,
            "At least one uid is required",
            "uids_required",
        );
    }
    // Scopes, and another account.
    let bob = service.person("bob").await;
    let token = ada.token(&["mail:read", "mail:send"]).await;
    let token = token["token"].as_str().unwrap();
    for action in ["copy", "trash", "restore"] {
        let body = json!({ "destination": "Archive" });
        let response = change(&bob, one, action, &body).await;
        refused(&response, 404, "Message not found", "message_not_found");
        let line = format!("POST /api/v1/mail/messages/{one}/{action}");
        assert_eq!(
            service.with_bearer(&line, token).await.status,
            403,
            "{line}"
        );
        let line = format!("POST /api/v1/mail/messages/bulk/{action}");
        assert_eq!(
            service.with_bearer(&line, token).await.status,
            403,
            "{line}"
        );
    }
    let response = put_flags(&bob, one, &json!(["a"])).await;
    refused(&response, 404, "Message not found", "message_not_found");
    let line = format!("PUT /api/v1/mail/messages/{one}/flags");
    assert_eq!(service.with_bearer(&line, token).await.status, 403);
    assert_eq!(subjects(&mut client, "Archive").await.len(), 3);
}
