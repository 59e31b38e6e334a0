//! Flagging, moving and deleting one message.
//!
//! Another IMAP client checks the result of a change, not only the API.

use std::collections::BTreeSet;

use latchmail_tests::{
    Imap, Person, Response, Service, append_message, imap, store_flags, stored_messages, subjects,
};
use serde_json::{Value, json};

const NO_NUMBERS: [&str; 7] = [
    "0",
    "-1",
    "abc",
    "1.5",
    "1e3",
    "%20",
    "99999999999999999999999",
];

async fn flag(person: &Person<'_>, uid: u64, action: &str, flags: &[&str]) -> Response {
    let path = format!("/api/v1/mail/messages/{uid}/flag");
    let body = json!({ "flags": flags, "action": action });
    person.post(&path, &body).await
}

#[track_caller]
fn done(response: Response) {
    assert_eq!(response.succeeds(200), json!({ "success": true }));
}

/// Returns the flags of the message with that subject, as another client sees them.
async fn flags_of(client: &mut Imap, folder: &str, subject: &str) -> BTreeSet<String> {
    let stored = stored_messages(client, folder).await;
    let message = stored.into_iter().find(|m| m.subject() == subject);
    message.expect("the message is there").flags
}

fn set(flags: &[&str]) -> BTreeSet<String> {
    flags.iter().map(|&flag| flag.to_owned()).collect()
}

fn flags_in(message: &Value) -> BTreeSet<String> {
    let flags = message["flags"].as_array().unwrap().iter();
    flags.map(|f| f.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn flags_are_added_and_removed_for_every_client() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "one").await;
    append_message(&mut client, "INBOX", "two").await;
    let uid = ada.uid_of("INBOX", "one").await;
    for (action, flags, left) in [
        (
            "add",
            &["\\Seen", "\\Flagged", "$Forwarded"][..],
            &["\\Seen", "\\Flagged", "$Forwarded"][..],
        ),
        ("add", &["\\Seen"], &["\\Seen", "\\Flagged", "$Forwarded"]),
        ("remove", &["\\Flagged"], &["\\Seen", "$Forwarded"]),
        (
            "remove",
            &["\\Flagged", "never-set"],
            &["\\Seen", "$Forwarded"],
        ),
        ("remove", &["$Forwarded", "\\Seen", "\\Seen"], &[]),
        (
            "add",
            &["\\Answered", "\\Draft", "NonJunk", "Projekt-7", "a.b:c"],
            &["\\Answered", "\\Draft", "NonJunk", "Projekt-7", "a.b:c"],
        ),
    ] {
        done(flag(&ada, uid, action, flags).await);
        let left = set(left);
        assert_eq!(flags_of(&mut client, "INBOX", "one").await, left);
        assert_eq!(flags_in(&ada.message(uid).await), left);
        let listed = ada.messages("INBOX").await;
        assert_eq!(flags_in(&listed[1]), left);
        assert_eq!(flags_in(&listed[0]), set(&[]), "the other message");
    }
}

#[tokio::test]
async fn a_flag_that_clients_cannot_set_is_refused_and_nothing_is_changed() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "one").await;
    let uid = ada.uid_of("INBOX", "one").await;
    for refused in [
        "\\Deleted",
        "\\deleted",
        "\\Recent",
        "\\Custom",
        "\\*",
        "\\",
        "\\\\Seen",
        "\\Seen ",
        " \\Seen",
        "",
        " ",
        "two words",
        "a(b",
        "a)b",
        "a{b",
        "{3}",
        "a%b",
        "a*b",
        "a\"b",
        "a\\b",
        "a]b",
        "a\rb",
        "a\nb",
        "a\r\nA1 LOGOUT",
        "a\0b",
        "a\tb",
        "a\u{7f}b",
        "grün",
        "флаг",
    ] {
        for action in ["add", "remove"] {
            let response = flag(&ada, uid, action, &[refused]).await;
            response.fails(400, "Invalid flag data");
            // One invalid flag makes the whole request fail.
            let response = flag(&ada, uid, action, &["\\Seen", refused]).await;
            response.fails(400, "Invalid flag data");
        }
    }
    assert_eq!(flags_of(&mut client, "INBOX", "one").await, set(&[]));
    assert_eq!(ada.uids("INBOX").await, [uid]);
}

#[tokio::test]
async fn an_invalid_body_for_a_change_of_flags_is_refused() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "one").await;
    let uid = ada.uid_of("INBOX", "one").await;
    let path = format!("/api/v1/mail/messages/{uid}/flag");
    for body in [
        json!({}),
        json!({ "flags": ["\\Seen"] }),
        json!({ "action": "add" }),
        json!({ "flags": null, "action": "add" }),
        json!({ "flags": "\\Seen", "action": "add" }),
        json!({ "flags": { "0": "\\Seen" }, "action": "add" }),
        json!({ "flags": [1], "action": "add" }),
        json!({ "flags": [null], "action": "add" }),
        json!({ "flags": [["\\Seen"]], "action": "add" }),
        json!({ "flags": ["\\Seen"], "action": null }),
        json!({ "flags": ["\\Seen"], "action": true }),
        json!({ "flags": ["\\Seen"], "action": "toggle" }),
        json!({ "flags": ["\\Seen"], "action": "ADD" }),
        json!({ "flags": ["\\Seen"], "action": "" }),
        json!({ "flags": ["\\Seen"], "action": ["add"] }),
        json!([["\\Seen"], "add"]),
        json!("add"),
        json!(null),
    ] {
        let response = ada.post(&path, &body).await;
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
        "",
        "{",
        "flags=add",
        "{\"flags\":[\"\\\\Seen\"],\"action\":\"add\"} x",
    ] {
        let response = ada.post_raw(&path, body).await;
        response.fails(400, "Invalid flag data");
    }
    assert_eq!(flags_of(&mut client, "INBOX", "one").await, set(&[]));
}

#[tokio::test]
async fn a_moved_message_keeps_its_number_and_flags() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for subject in ["one", "two", "three"] {
        append_message(&mut client, "INBOX", subject).await;
    }
    // "Projekte/Übersicht & Pläne" in modified UTF-7.
    let nested = "Projekte/&ANw-bersicht &- Pl&AOQ-ne";
    for folder in ["Projekte", nested, "100% \"quoted\" \\ {3} *"] {
        client.create(folder).await.unwrap();
    }
    let uid = ada.uid_of("INBOX", "two").await;
    done(flag(&ada, uid, "add", &["\\Seen", "keep"]).await);
    let before = ada.message(uid).await;
    for (destination, stored_in, listed_in) in [
        ("Archive", "Archive", "Archive"),
        (
            "Projekte/Übersicht & Pläne",
            nested,
            "Projekte%2F%C3%9Cbersicht%20%26%20Pl%C3%A4ne",
        ),
        (
            "100% \"quoted\" \\ {3} *",
            "100% \"quoted\" \\ {3} *",
            "100%25%20%22quoted%22%20%5C%20%7B3%7D%20*",
        ),
        ("Trash", "Trash", "Trash"),
    ] {
        done(ada.move_to(uid, destination).await);
        assert_eq!(subjects(&mut client, "INBOX").await, ["one", "three"]);
        assert_eq!(subjects(&mut client, stored_in).await, ["two"]);
        let flags = flags_of(&mut client, stored_in, "two").await;
        assert_eq!(flags, set(&["\\Seen", "keep"]));
        assert_eq!(ada.uids(listed_in).await, [uid]);
        let after = ada.message(uid).await;
        for field in ["uid", "subject", "date", "size", "text", "messageId"] {
            assert_eq!(after[field], before[field], "{field}");
        }
    }
    // Moves it back, with the inbox's name in lower case.
    done(ada.move_to(uid, "inbox").await);
    assert_eq!(
        subjects(&mut client, "INBOX").await,
        ["one", "three", "two"]
    );
    assert_eq!(ada.uids("INBOX").await[0], uid);
    assert_eq!(subjects(&mut client, "Trash").await, [""; 0]);
}

#[tokio::test]
async fn a_message_that_is_moved_to_its_own_folder_is_not_duplicated() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for subject in ["one", "two"] {
        append_message(&mut client, "INBOX", subject).await;
    }
    let uid = ada.uid_of("INBOX", "one").await;
    done(ada.move_to(uid, "INBOX").await);
    let mut left = subjects(&mut client, "INBOX").await;
    left.sort();
    assert_eq!(left, ["one", "two"]);
    assert_eq!(ada.uid_of("INBOX", "one").await, uid);
    assert_eq!(ada.message(uid).await["subject"], "one");
}

#[tokio::test]
async fn an_invalid_move_is_refused_with_the_specified_text() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "one").await;
    let uid = ada.uid_of("INBOX", "one").await;
    let path = format!("/api/v1/mail/messages/{uid}/move");
    for body in [
        json!({}),
        json!({ "folder": "INBOX" }),
        json!({ "destination": null }),
        json!({ "destination": 5 }),
        json!({ "destination": "" }),
        json!({ "destination": ["Trash"] }),
        json!(["Trash"]),
        json!("Trash"),
    ] {
        let response = ada.post(&path, &body).await;
        assert_eq!(
            (response.status, &response.json),
            (
                400,
                &json!({ "error": "Invalid move data", "code": "invalid_move_data" })
            ),
            "{body}"
        );
    }
    for body in ["", "{", "destination=Trash"] {
        let response = ada.post_raw(&path, body).await;
        response.fails(400, "Invalid move data");
    }
    let long = "x".repeat(3000);
    for destination in [
        "Nowhere",
        "INBOX/Nowhere",
        "../../etc",
        "*",
        "%",
        "\"",
        "\\",
        "{5}",
        "&",
        "x\r\nA1 LOGOUT",
        "x\0",
        "📬",
        &long,
    ] {
        let response = ada.move_to(uid, destination).await;
        response.fails(404, "Folder not found");
    }
    assert_eq!(subjects(&mut client, "INBOX").await, ["one"]);
    assert_eq!(ada.uids("INBOX").await, [uid]);
}

#[tokio::test]
async fn a_message_is_deleted_permanently_and_no_other_with_it() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for subject in ["one", "two", "three"] {
        append_message(&mut client, "INBOX", subject).await;
    }
    // Another client has marked it but not expunged it.
    let marked = stored_messages(&mut client, "INBOX").await[2].imap_uid;
    store_flags(&mut client, "INBOX", marked, "+FLAGS.SILENT (\\Deleted)").await;
    let uid = ada.uid_of("INBOX", "one").await;
    done(ada.delete(uid).await);
    assert_eq!(subjects(&mut client, "INBOX").await, ["two", "three"]);
    let flags = flags_of(&mut client, "INBOX", "three").await;
    assert_eq!(flags, set(&["\\Deleted"]));
    assert_eq!(subjects(&mut client, "Trash").await, [""; 0]);
    ada.delete(uid).await.fails(404, "Message not found");
    let line = format!("GET /api/v1/mail/messages/{uid}");
    ada.send(&line).await.fails(404, "Message not found");
    // The message can be in any folder, and the hint does not matter.
    let uid = ada.uid_of("INBOX", "two").await;
    done(ada.move_to(uid, "Trash").await);
    let line = format!("DELETE /api/v1/mail/messages/{uid}?folder=Nowhere");
    done(ada.send(&line).await);
    assert_eq!(subjects(&mut client, "Trash").await, [""; 0]);
    assert_eq!(subjects(&mut client, "INBOX").await, ["three"]);
}

#[tokio::test]
async fn the_folder_of_a_change_is_only_a_hint() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "one").await;
    let uid = ada.uid_of("INBOX", "one").await;
    let path = |action: &str| format!("/api/v1/mail/messages/{uid}/{action}");
    for hint in ["INBOX", "Trash", "Nowhere", ""] {
        let body = json!({ "flags": ["\\Seen"], "action": "add", "folder": hint });
        done(ada.post(&path("flag"), &body).await);
        let body = json!({ "destination": "Archive", "folder": hint });
        done(ada.post(&path("move"), &body).await);
        assert_eq!(subjects(&mut client, "Archive").await, ["one"], "{hint}");
        let body = json!({ "destination": "INBOX", "folder": hint });
        done(ada.post(&path("move"), &body).await);
        assert_eq!(subjects(&mut client, "INBOX").await, ["one"], "{hint}");
    }
    assert_eq!(ada.uids("INBOX").await, [uid]);
}

/// Returns the request of each change of the message with this number, with a valid body.
fn changes(uid: &str) -> [(String, Value); 3] {
    [
        (
            format!("POST /api/v1/mail/messages/{uid}/flag"),
            json!({ "flags": ["\\Seen"], "action": "add" }),
        ),
        (
            format!("POST /api/v1/mail/messages/{uid}/move"),
            json!({ "destination": "Trash" }),
        ),
        (format!("DELETE /api/v1/mail/messages/{uid}"), Value::Null),
    ]
}

async fn change(person: &Person<'_>, (line, body): &(String, Value)) -> Response {
    if body.is_null() {
        return person.send(line).await;
    }
    person.post(line.trim_start_matches("POST "), body).await
}

#[tokio::test]
async fn a_change_of_an_unknown_message_or_one_of_another_account_is_refused() {
    let service = Service::with_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "one").await;
    let uid = ada.uid_of("INBOX", "one").await;
    for none in NO_NUMBERS {
        for request in changes(none) {
            let response = change(&ada, &request).await;
            response.fails(400, "Invalid message UID");
        }
    }
    for missing in [uid + 1, 987_654_321, u64::MAX] {
        for request in changes(&missing.to_string()) {
            let response = change(&ada, &request).await;
            response.fails(404, "Message not found");
        }
    }
    for request in changes(&uid.to_string()) {
        let response = change(&bob, &request).await;
        response.fails(404, "Message not found");
        let (line, body) = &request;
        let nobody = Response::of(service.request(line).json(body)).await;
        nobody.fails(401, "Missing or invalid Authorization header");
    }
    assert_eq!(subjects(&mut client, "INBOX").await, ["one"]);
    assert_eq!(flags_of(&mut client, "INBOX", "one").await, set(&[]));
}

#[tokio::test]
async fn while_the_mail_server_is_down_a_change_returns_503_and_is_not_made_later() {
    let mut service = Service::with_own_mail().await;
    let (access, uid) = {
        let ada = service.person("ada").await;
        append_message(&mut imap(&ada).await, "INBOX", "one").await;
        let uid = ada.uid_of("INBOX", "one").await;
        (ada.access, uid)
    };
    service.stack().stop_imap().await.unwrap();
    for (line, body) in changes(&uid.to_string()) {
        let mut request = service.request(&line).bearer_auth(&access);
        if !body.is_null() {
            request = request.json(&body);
        }
        let response = Response::of(request).await;
        response.fails(
            503,
            "Mail server is unavailable, please try again in a moment",
        );
        assert!(response.header("retry-after").is_some(), "{line}");
    }
    service.stack().start_imap().await.unwrap();
    let ada = Person {
        service: &service,
        address: "ada@first.test".into(),
        access,
        refresh: String::new(),
    };
    let mut client = imap(&ada).await;
    assert_eq!(flags_of(&mut client, "INBOX", "one").await, set(&[]));
    assert_eq!(ada.uids("INBOX").await, [uid]);
    done(flag(&ada, uid, "add", &["\\Seen"]).await);
    done(ada.move_to(uid, "Trash").await);
    done(ada.delete(uid).await);
    assert_eq!(subjects(&mut client, "INBOX").await, [""; 0]);
    assert_eq!(subjects(&mut client, "Trash").await, [""; 0]);
}
