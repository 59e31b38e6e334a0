//! Flagging, moving and deleting up to 200 messages in one request.
//!
//! Another IMAP client checks the result of a change, not only the API.

use latchmail_tests::{
    Imap, Person, Response, Service, append_message, imap, store_flags, stored_messages, subjects,
};
use serde_json::{Value, json};

const MAIL_SERVER_DOWN: &str = "Mail server is unavailable, please try again in a moment";
const NONE: &str = "At least one uid is required";
const MANY: &str = "Too many messages (max 200 per request)";
const NOTHING: [&str; 0] = [];

async fn bulk(person: &Person<'_>, action: &str, body: &Value) -> Response {
    let path = format!("/api/v1/mail/messages/bulk/{action}");
    person.post(&path, body).await
}

#[track_caller]
fn counted(response: Response, count: usize) {
    let expected = json!({ "success": true, "count": count });
    assert_eq!(response.succeeds(200), expected);
}

/// Returns the three changes with their bodies, without uids.
fn changes() -> [(&'static str, Value); 3] {
    [
        ("flag", json!({ "flags": ["\\Seen"], "action": "add" })),
        ("move", json!({ "destination": "Trash" })),
        ("delete", json!({})),
    ]
}

fn with(body: &Value, field: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[field] = value;
    body
}

/// Puts messages with these subjects into a folder, and returns their numbers in that order.
async fn append_messages(
    person: &Person<'_>,
    client: &mut Imap,
    folder: &str,
    names: &[&str],
) -> Vec<u64> {
    let mut uids = Vec::new();
    for subject in names {
        append_message(client, folder, subject).await;
        uids.push(person.uid_of(&folder.replace('/', "%2F"), subject).await);
    }
    uids
}

/// Returns the subjects of a folder's messages with a flag.
async fn flagged(client: &mut Imap, folder: &str, flag: &str) -> Vec<String> {
    let stored = stored_messages(client, folder).await;
    stored
        .iter()
        .filter(|message| message.flags.contains(flag))
        .map(latchmail_tests::StoredMessage::subject)
        .collect()
}

#[tokio::test]
async fn flags_of_many_messages_are_changed_in_all_folders() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let inbox = append_messages(&ada, &mut client, "INBOX", &["one", "two", "three"]).await;
    let archive = append_messages(&ada, &mut client, "Archive", &["four", "five"]).await;
    let uids = json!([archive[1], inbox[2], inbox[0], archive[1], inbox[2]]);
    let body = json!({ "uids": uids, "flags": ["\\Flagged", "$label1"], "action": "add" });
    counted(bulk(&ada, "flag", &body).await, 3);
    for flag in ["\\Flagged", "$label1"] {
        assert_eq!(flagged(&mut client, "INBOX", flag).await, ["one", "three"]);
        assert_eq!(flagged(&mut client, "Archive", flag).await, ["five"]);
    }
    let body = json!({ "uids": [inbox[0], inbox[1]], "flags": ["$label1"], "action": "remove" });
    counted(bulk(&ada, "flag", &body).await, 2);
    assert_eq!(flagged(&mut client, "INBOX", "$label1").await, ["three"]);
    let left = flagged(&mut client, "INBOX", "\\Flagged").await;
    assert_eq!(left, ["one", "three"]);
    assert_eq!(flagged(&mut client, "Archive", "$label1").await, ["five"]);
}

#[tokio::test]
async fn many_messages_are_moved_from_all_folders_and_keep_their_numbers() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for folder in ["Work", "Work/Reports"] {
        client.create(folder).await.unwrap();
    }
    let inbox = append_messages(&ada, &mut client, "INBOX", &["one", "two", "three"]).await;
    let archive = append_messages(&ada, &mut client, "Archive", &["four", "five"]).await;
    let in_reports = append_messages(&ada, &mut client, "Work/Reports", &["six"]).await;
    let uids = [inbox[2], archive[0], in_reports[0], inbox[0], inbox[0]];
    let body = json!({ "uids": uids, "destination": "Work/Reports", "folder": "Nowhere" });
    counted(bulk(&ada, "move", &body).await, 4);
    let mut moved = subjects(&mut client, "Work/Reports").await;
    moved.sort();
    assert_eq!(moved, ["four", "one", "six", "three"]);
    assert_eq!(subjects(&mut client, "INBOX").await, ["two"]);
    assert_eq!(subjects(&mut client, "Archive").await, ["five"]);
    for (uid, subject) in [
        (inbox[2], "three"),
        (archive[0], "four"),
        (in_reports[0], "six"),
        (inbox[0], "one"),
    ] {
        assert_eq!(ada.message(uid).await["subject"], subject);
        assert_eq!(ada.uid_of("Work%2FReports", subject).await, uid);
    }
}

#[tokio::test]
async fn many_messages_are_deleted_in_all_folders_and_no_other_with_them() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let inbox = append_messages(&ada, &mut client, "INBOX", &["one", "two", "three"]).await;
    let trash = append_messages(&ada, &mut client, "Trash", &["four", "five"]).await;
    // Another client has marked it but not expunged it.
    let marked = stored_messages(&mut client, "INBOX").await[1].imap_uid;
    store_flags(&mut client, "INBOX", marked, "+FLAGS (\\Deleted)").await;
    let body = json!({ "uids": [trash[1], inbox[0], inbox[2], inbox[0]] });
    counted(bulk(&ada, "delete", &body).await, 3);
    assert_eq!(subjects(&mut client, "INBOX").await, ["two"]);
    assert_eq!(flagged(&mut client, "INBOX", "\\Deleted").await, ["two"]);
    assert_eq!(subjects(&mut client, "Trash").await, ["four"]);
    for uid in [trash[1], inbox[0], inbox[2]] {
        let line = format!("GET /api/v1/mail/messages/{uid}");
        ada.send(&line).await.fails(404, "Message not found");
    }
    assert_eq!(ada.uids("INBOX").await, [inbox[1]]);
    assert_eq!(ada.uids("Trash").await, [trash[0]]);
}

#[tokio::test]
async fn missing_messages_are_counted_and_the_others_are_changed() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mut client = imap(&ada).await;
    let names = ["one", "two", "three", "four"];
    let uids = append_messages(&ada, &mut client, "INBOX", &names).await;
    let line = format!("DELETE /api/v1/mail/messages/{}", uids[1]);
    ada.send(&line).await.succeeds(200);
    // Another client deletes the third message; the last two numbers do not exist.
    let gone = stored_messages(&mut client, "INBOX").await[1].imap_uid;
    client.select("INBOX").await.unwrap();
    client.uid_mv(gone.to_string(), "Junk").await.unwrap();
    client.delete("Junk").await.unwrap();
    let requested = json!([uids[0], uids[1], uids[2], uids[3], 987_654_321, u64::MAX]);
    let ask = |body: Value| with(&body, "uids", requested.clone());
    let body = ask(json!({ "flags": ["\\Seen"], "action": "add" }));
    counted(bulk(&ada, "flag", &body).await, 6);
    let seen = flagged(&mut client, "INBOX", "\\Seen").await;
    assert_eq!(seen, ["one", "four"]);
    let body = ask(json!({ "destination": "Archive" }));
    counted(bulk(&ada, "move", &body).await, 6);
    let moved = subjects(&mut client, "Archive").await;
    assert_eq!(moved, ["one", "four"]);
    // Numbers of another account's mailbox do not exist here.
    for (action, body) in changes() {
        counted(bulk(&bob, action, &ask(body)).await, 6);
    }
    assert_eq!(subjects(&mut client, "Archive").await, ["one", "four"]);
    counted(bulk(&ada, "delete", &ask(json!({}))).await, 6);
    assert_eq!(subjects(&mut client, "Archive").await, NOTHING);
    for (action, body) in changes() {
        counted(bulk(&ada, action, &ask(body)).await, 6);
    }
}

#[tokio::test]
async fn two_hundred_messages_can_be_changed_in_one_request_and_one_more_is_refused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for number in 0..201 {
        append_message(&mut client, "INBOX", &format!("message {number}")).await;
    }
    let mut uids = Vec::new();
    for page in 1..=3 {
        let line = format!("GET /api/v1/mail/folders/INBOX/messages?limit=100&page={page}");
        let listing = ada.send(&line).await.succeeds(200);
        let messages = listing["messages"].as_array().unwrap().iter();
        uids.extend(messages.map(|m| m["uid"].as_u64().unwrap()));
    }
    assert_eq!(uids.len(), 201);
    for (action, body) in changes() {
        let body = with(&body, "uids", json!(uids));
        bulk(&ada, action, &body).await.fails(400, MANY);
    }
    assert_eq!(flagged(&mut client, "INBOX", "\\Seen").await, NOTHING);
    // Every second number first, so that the request contains no ranges.
    let (odd, even): (Vec<u64>, Vec<u64>) = uids[1..].iter().partition(|uid| *uid % 2 == 1);
    let requested = json!([&odd[..], &even].concat());
    let body = json!({ "uids": requested, "flags": ["\\Seen"], "action": "add" });
    counted(bulk(&ada, "flag", &body).await, 200);
    assert_eq!(flagged(&mut client, "INBOX", "\\Seen").await.len(), 200);
    let body = json!({ "uids": requested, "destination": "Archive" });
    counted(bulk(&ada, "move", &body).await, 200);
    assert_eq!(subjects(&mut client, "INBOX").await, ["message 200"]);
    assert_eq!(subjects(&mut client, "Archive").await.len(), 200);
    // Each message keeps its own number.
    for (number, uid) in uids.iter().rev().enumerate().step_by(23) {
        let subject = &ada.message(*uid).await["subject"];
        assert_eq!(*subject, format!("message {number}"));
    }
    counted(
        bulk(&ada, "delete", &json!({ "uids": requested })).await,
        200,
    );
    assert_eq!(subjects(&mut client, "Archive").await, NOTHING);
    assert_eq!(ada.uids("INBOX").await, uids[..1]);
}

#[tokio::test]
async fn a_body_without_message_numbers_is_refused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let uid = append_messages(&ada, &mut client, "INBOX", &["one"]).await[0];
    for (action, body) in changes() {
        bulk(&ada, action, &body).await.fails(400, NONE);
        let none = with(&body, "uids", json!([]));
        bulk(&ada, action, &none).await.fails(400, NONE);
        for uids in [
            json!(null),
            json!(uid),
            json!(uid.to_string()),
            json!({ "0": uid }),
            json!([uid, 0]),
            json!([uid, -1]),
            json!([uid, 1.5]),
            json!([uid, null]),
            json!([uid, uid.to_string()]),
            json!([uid, [uid]]),
            json!([uid, true]),
            json!([uid, 1e30]),
        ] {
            let response = bulk(&ada, action, &with(&body, "uids", uids.clone())).await;
            let text = response.json["error"].as_str().unwrap_or_default();
            assert!(
                response.status == 400 && !text.is_empty(),
                "{action} {uids}: {} {}",
                response.status,
                response.json
            );
        }
        let path = format!("/api/v1/mail/messages/bulk/{action}");
        for body in ["", "{", "uids=1", "[1]", "null"] {
            let response = ada.post_raw(&path, body).await;
            assert_eq!(response.status, 400, "{action} {body}: {}", response.json);
        }
        let nobody = with(&body, "uids", json!([uid]));
        let nobody = service.post(&path, &nobody).await;
        nobody.fails(401, "Missing or invalid Authorization header");
    }
    assert_eq!(subjects(&mut client, "INBOX").await, ["one"]);
    assert_eq!(flagged(&mut client, "INBOX", "\\Seen").await, NOTHING);
}

#[tokio::test]
async fn an_invalid_change_is_refused_with_the_specified_text() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let uids = json!(append_messages(&ada, &mut client, "INBOX", &["one", "two"]).await);
    for body in [
        json!({}),
        json!({ "flags": ["\\Seen"] }),
        json!({ "action": "add" }),
        json!({ "flags": [], "action": "add" }),
        json!({ "flags": "\\Seen", "action": "add" }),
        json!({ "flags": [1], "action": "add" }),
        json!({ "flags": ["\\Seen"], "action": "set" }),
        json!({ "flags": ["\\Seen"], "action": 1 }),
        json!({ "flags": ["\\Seen", "\\Deleted"], "action": "add" }),
        json!({ "flags": ["\\Recent"], "action": "remove" }),
        json!({ "flags": ["\\Other"], "action": "add" }),
        json!({ "flags": ["two words"], "action": "add" }),
        json!({ "flags": ["x)\r\nA1 LOGOUT"], "action": "add" }),
        json!({ "flags": ["grün"], "action": "add" }),
        json!({ "flags": [""], "action": "add" }),
    ] {
        let response = bulk(&ada, "flag", &with(&body, "uids", uids.clone())).await;
        assert_eq!(
            (response.status, &response.json),
            (
                400,
                &json!({ "error": "Invalid flag data", "code": "invalid_flag_data" })
            ),
            "{body}"
        );
    }
    for body in [
        json!({}),
        json!({ "destination": "" }),
        json!({ "destination": 5 }),
        json!({ "destination": null }),
        json!({ "destination": ["Trash"] }),
    ] {
        let response = bulk(&ada, "move", &with(&body, "uids", uids.clone())).await;
        assert_eq!(
            (response.status, &response.json),
            (
                400,
                &json!({ "error": "Invalid move data", "code": "invalid_move_data" })
            ),
            "{body}"
        );
    }
    for destination in ["Nowhere", "INBOX/Nowhere", "*", "x\r\nA1 LOGOUT", "{5}"] {
        let body = json!({ "uids": uids, "destination": destination });
        let response = bulk(&ada, "move", &body).await;
        response.fails(404, "Folder not found");
    }
    assert_eq!(subjects(&mut client, "INBOX").await, ["one", "two"]);
    for message in stored_messages(&mut client, "INBOX").await {
        assert!(message.flags.is_empty(), "{:?}", message.flags);
    }
}

#[tokio::test]
async fn while_the_mail_server_is_down_nothing_is_changed_and_the_response_is_503() {
    let mut service = Service::with_own_mail().await;
    let (access, uids) = {
        let ada = service.person("ada").await;
        let mut client = imap(&ada).await;
        let uids = append_messages(&ada, &mut client, "INBOX", &["one", "two"]).await;
        (ada.access, uids)
    };
    service.stack().stop_imap().await.unwrap();
    for (action, body) in changes() {
        let line = format!("POST /api/v1/mail/messages/bulk/{action}");
        let body = with(&body, "uids", json!(uids));
        let request = service.request(&line).bearer_auth(&access).json(&body);
        let response = Response::of(request).await;
        response.fails(503, MAIL_SERVER_DOWN);
        assert!(response.header("retry-after").is_some(), "{action}");
    }
    service.stack().start_imap().await.unwrap();
    let ada = Person {
        service: &service,
        address: "ada@first.test".into(),
        access,
        refresh: String::new(),
    };
    let mut client = imap(&ada).await;
    assert_eq!(subjects(&mut client, "INBOX").await, ["one", "two"]);
    assert_eq!(flagged(&mut client, "INBOX", "\\Seen").await, NOTHING);
    for (action, body) in changes() {
        counted(
            bulk(&ada, action, &with(&body, "uids", json!(uids))).await,
            2,
        );
    }
    assert_eq!(subjects(&mut client, "INBOX").await, NOTHING);
    assert_eq!(subjects(&mut client, "Trash").await, NOTHING);
}
