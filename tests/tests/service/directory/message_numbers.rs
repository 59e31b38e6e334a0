//! A message keeps its number when any client moves it, and no number
//! is used twice.
//!
//! The other client is an IMAP client without knowledge of the service's numbers.

use std::collections::BTreeSet;

use futures_util::TryStreamExt as _;
use latchmail_tests::{
    Imap, Person, RICH_MESSAGE, Service, append_message, imap, message_with_subject, store_flags,
    stored_messages, subjects,
};
use serde_json::json;

const MOVE_METHODS: [MoveMethod; 2] = [MoveMethod::Move, MoveMethod::CopyAndExpunge];
const NO_NUMBERS: [u64; 0] = [];

/// How another client moves a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum MoveMethod {
    /// UID MOVE (RFC 6851).
    Move,
    /// COPY and EXPUNGE, for servers without MOVE.
    CopyAndExpunge,
}

/// Moves the message with that subject as another client does.
pub(super) async fn move_message(
    client: &mut Imap,
    method: MoveMethod,
    subject: &str,
    from: &str,
    to: &str,
) {
    let messages = stored_messages(client, from).await;
    let message = messages.iter().find(|m| m.subject() == subject);
    let set = message.expect("it is there").imap_uid.to_string();
    match method {
        MoveMethod::Move => client.uid_mv(set, to).await.unwrap(),
        MoveMethod::CopyAndExpunge => {
            client.uid_copy(&set, to).await.unwrap();
            delete_message(client, from, subject).await;
        }
    }
}

/// Deletes the message with that subject as another client does.
pub(super) async fn delete_message(client: &mut Imap, folder: &str, subject: &str) {
    let messages = stored_messages(client, folder).await;
    let message = messages.iter().find(|m| m.subject() == subject).unwrap();
    store_flags(client, folder, message.imap_uid, "+FLAGS (\\Deleted)").await;
    let expunged = client.expunge().await.unwrap();
    expunged.try_collect::<Vec<_>>().await.unwrap();
}

async fn assert_gone(person: &Person<'_>, uid: u64) {
    let line = format!("GET /api/v1/mail/messages/{uid}");
    person.send(&line).await.fails(404, "Message not found");
}

#[tokio::test]
async fn a_number_survives_a_move_by_another_client() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("Known").await.unwrap();
    assert_eq!(ada.total("Known").await, 0);
    for method in MOVE_METHODS {
        // The targets are a folder that the service has seen, one that it has not seen, and a new
        // one.
        for to in ["Known", "Archive", "New"] {
            for read_first in [true, false] {
                let subject = format!("{method:?} to {to}, {read_first}");
                append_message(&mut client, "INBOX", &subject).await;
                append_message(&mut client, "INBOX", &format!("beside {subject}")).await;
                let uid = ada.uid_of("INBOX", &subject).await;
                let beside = ada.uid_of("INBOX", &format!("beside {subject}")).await;
                if to == "New" {
                    client
                        .create(format!("New/{method:?}{read_first}"))
                        .await
                        .unwrap();
                }
                let to = match to {
                    "New" => format!("New/{method:?}{read_first}"),
                    to => to.to_owned(),
                };
                move_message(&mut client, method, &subject, "INBOX", &to).await;
                if read_first {
                    assert_eq!(ada.message(uid).await["subject"], subject);
                }
                let path = to.replace('/', "%2F");
                assert_eq!(ada.uid_of(&path, &subject).await, uid, "{subject}");
                assert_eq!(ada.message(uid).await["subject"], subject);
                assert!(!ada.uids("INBOX").await.contains(&uid));
                assert_eq!(
                    ada.uid_of("INBOX", &format!("beside {subject}")).await,
                    beside
                );
            }
        }
    }
}

#[tokio::test]
async fn a_number_survives_several_moves_between_two_listings() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for method in MOVE_METHODS {
        let subject = format!("by {method:?}");
        append_message(&mut client, "INBOX", &subject).await;
        let uid = ada.uid_of("INBOX", &subject).await;
        move_message(&mut client, method, &subject, "INBOX", "Archive").await;
        move_message(&mut client, method, &subject, "Archive", "Trash").await;
        assert_eq!(ada.message(uid).await["subject"], subject);
        move_message(&mut client, method, &subject, "Trash", "Junk").await;
        move_message(&mut client, method, &subject, "Junk", "INBOX").await;
        assert_eq!(ada.uid_of("INBOX", &subject).await, uid);
        // The service moves it first, then another client.
        ada.move_to(uid, "Archive").await.succeeds(200);
        move_message(&mut client, method, &subject, "Archive", "INBOX").await;
        assert_eq!(ada.uid_of("INBOX", &subject).await, uid);
        assert_eq!(ada.message(uid).await["subject"], subject);
        // Back to its last known folder: another IMAP UID, but the same message.
        move_message(&mut client, method, &subject, "INBOX", "Drafts").await;
        move_message(&mut client, method, &subject, "Drafts", "INBOX").await;
        assert_eq!(ada.message(uid).await["subject"], subject);
        assert_eq!(ada.uid_of("INBOX", &subject).await, uid);
    }
}

#[tokio::test]
async fn identical_messages_keep_their_set_of_numbers() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let arrived = Some("\"20-Nov-2026 08:00:00 +0000\"");
    for flag in ["(first)", "(second)", "(third)"] {
        client
            .append("INBOX", Some(flag), arrived, message_with_subject("twin"))
            .await
            .unwrap();
    }
    let uids = ada.uids("INBOX").await;
    assert_eq!(uids.iter().collect::<BTreeSet<_>>().len(), 3);
    client.select("INBOX").await.unwrap();
    client.uid_mv("1:*", "Archive").await.unwrap();
    assert_eq!(ada.uids("Archive").await, uids);
    let flags = |messages: Vec<serde_json::Value>| -> Vec<_> {
        messages.iter().map(|m| m["flags"].clone()).collect()
    };
    assert_eq!(
        flags(ada.messages("Archive").await),
        [json!(["third"]), json!(["second"]), json!(["first"])]
    );
    for uid in uids {
        assert_eq!(ada.message(uid).await["subject"], "twin");
    }
}

#[tokio::test]
async fn a_number_survives_a_rename_of_its_folder() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for folder in ["Work", "Work/Reports"] {
        client.create(folder).await.unwrap();
    }
    for (folder, subject) in [
        ("Work", "one"),
        ("Work", "two"),
        ("Work/Reports", "three"),
        ("INBOX", "four"),
    ] {
        append_message(&mut client, folder, subject).await;
    }
    let (work, reports) = (ada.uids("Work").await, ada.uids("Work%2FReports").await);
    let inbox = ada.uids("INBOX").await;
    client
        .rename("Work", "Büro".replace('ü', "&APw-"))
        .await
        .unwrap();
    // Reads the messages by number before a folder is listed, and then lists the folders.
    assert_eq!(ada.message(work[0]).await["subject"], "two");
    assert_eq!(ada.message(reports[0]).await["subject"], "three");
    assert_eq!(ada.uids("B%C3%BCro").await, work);
    assert_eq!(ada.uids("B%C3%BCro%2FReports").await, reports);
    // A new folder takes the name. Its messages are different ones.
    client.create("Work").await.unwrap();
    append_message(&mut client, "Work", "five").await;
    let five = ada.uids("Work").await;
    let known = [&work[..], &reports, &inbox].concat();
    assert!(five[0] > *known.iter().max().unwrap());
    assert_eq!(ada.uids("B%C3%BCro").await, work);
    // Renaming the inbox leaves an empty inbox (RFC 3501, section 6.3.5).
    client.rename("INBOX", "Old mail").await.unwrap();
    assert_eq!(ada.uids("INBOX").await, NO_NUMBERS);
    assert_eq!(ada.uids("Old%20mail").await, inbox);
    assert_eq!(ada.message(inbox[0]).await["subject"], "four");
}

#[tokio::test]
async fn a_folder_that_was_deleted_and_created_again_is_a_new_one() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("Work").await.unwrap();
    for subject in ["one", "two"] {
        append_message(&mut client, "Work", subject).await;
    }
    let gone = ada.uids("Work").await;
    client.delete("Work").await.unwrap();
    assert_gone(&ada, gone[0]).await;
    client.create("Work").await.unwrap();
    for subject in ["three", "four"] {
        append_message(&mut client, "Work", subject).await;
    }
    let new = ada.uids("Work").await;
    assert!(new.iter().min() > gone.iter().max());
    for uid in gone {
        assert_gone(&ada, uid).await;
    }
    assert_eq!(ada.message(new[0]).await["subject"], "four");
    // Messages that were in another folder for some time keep their numbers.
    for read_meanwhile in [true, false] {
        client.select("Work").await.unwrap();
        client.uid_mv("1:*", "Archive").await.unwrap();
        if read_meanwhile {
            assert_eq!(ada.uids("Archive").await, new);
        }
        client.close().await.unwrap();
        client.delete("Work").await.unwrap();
        client.create("Work").await.unwrap();
        client.select("Archive").await.unwrap();
        client.uid_mv("1:*", "Work").await.unwrap();
        assert_eq!(ada.message(new[0]).await["subject"], "four");
        assert_eq!(ada.uids("Work").await, new);
    }
}

#[tokio::test]
async fn a_copy_gets_its_own_number() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "one").await;
    let original = ada.uid_of("INBOX", "one").await;
    client.select("INBOX").await.unwrap();
    client.copy("1", "Archive").await.unwrap();
    let copy = ada.uid_of("Archive", "one").await;
    assert!(copy > original);
    // A copy within the same folder gets a new number too.
    client.copy("1", "INBOX").await.unwrap();
    let uids = ada.uids("INBOX").await;
    assert_eq!(uids.len(), 2);
    assert!(uids[0] > copy && uids[1] == original, "{uids:?}");
    for uid in [original, copy, uids[0]] {
        assert_eq!(ada.message(uid).await["subject"], "one");
    }
    // A copy that was listed keeps its number when the original is deleted.
    client.select("INBOX").await.unwrap();
    client.uid_mv("1:*", "Trash").await.unwrap();
    assert_eq!(ada.uids("Archive").await, [copy]);
    assert_eq!(ada.uids("Trash").await, uids);
    ada.delete(original).await.succeeds(200);
    assert_gone(&ada, original).await;
    assert_eq!(ada.message(copy).await["subject"], "one");
    assert_eq!(ada.uids("Archive").await, [copy]);
    assert_eq!(subjects(&mut client, "Archive").await, ["one"]);
}

#[tokio::test]
async fn no_number_is_assigned_twice() {
    let mut service = Service::with_mail().await;
    let mut given = BTreeSet::new();
    let (access, address) = {
        let ada = service.person("ada").await;
        let mut client = imap(&ada).await;
        let mut next = async |folder: &str, subject: &str| {
            append_message(&mut client, folder, subject).await;
            let uid = ada.uid_of(folder, subject).await;
            assert!(given.last() < Some(&uid), "{uid} after {given:?}");
            given.insert(uid);
            uid
        };
        // Deletes the newest message.
        let uid = next("INBOX", "one").await;
        ada.delete(uid).await.succeeds(200);
        let uid = next("INBOX", "two").await;
        ada.delete(uid).await.succeeds(200);
        let uid = next("Trash", "three").await;
        ada.move_to(uid, "INBOX").await.succeeds(200);
        ada.delete(uid).await.succeeds(200);
        next("INBOX", "four").await;
        delete_message(&mut imap(&ada).await, "INBOX", "four").await;
        next("INBOX", "five").await;
        // A message that replaces an equal one is a different message.
        let uid = next("INBOX", "six").await;
        ada.delete(uid).await.succeeds(200);
        next("INBOX", "six").await;
        (ada.access, ada.address)
    };
    service.restart().await;
    let ada = Person {
        service: &service,
        address,
        access,
        refresh: String::new(),
    };
    append_message(&mut imap(&ada).await, "INBOX", "seven").await;
    assert!(given.last() < Some(&ada.uid_of("INBOX", "seven").await));
    for gone in given.iter().take(4) {
        assert_gone(&ada, *gone).await;
    }
}

#[tokio::test]
async fn every_route_finds_a_message_that_moved_after_its_listing() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let rich = RICH_MESSAGE.replace('\n', "\r\n");
    for method in MOVE_METHODS {
        for action in ["read", "download", "flag", "move", "delete"] {
            let subject = format!("{action} after {method:?}");
            let message = rich.replace("Subject: Rich", &format!("Subject: {subject}"));
            client.append("INBOX", None, None, message).await.unwrap();
            let uid = ada.uid_of("INBOX", &subject).await;
            move_message(&mut client, method, &subject, "INBOX", "Archive").await;
            let path = format!("/api/v1/mail/messages/{uid}");
            match action {
                "read" => {
                    let line = format!("GET {path}?folder=INBOX");
                    let detail = ada.send(&line).await.succeeds(200);
                    assert_eq!(detail["subject"], subject);
                    assert_eq!(detail["uid"], uid);
                }
                "download" => {
                    let line = format!("GET {path}/attachments/0?folder=INBOX");
                    let response = ada.send(&line).await;
                    assert_eq!(
                        (response.status, &response.body[..]),
                        (200, &b"%PDF-1.4"[..])
                    );
                }
                "flag" => {
                    let body = json!({ "flags": ["\\Seen"], "action": "add", "folder": "INBOX" });
                    ada.post(&format!("{path}/flag"), &body).await.succeeds(200);
                    let archive = stored_messages(&mut client, "Archive").await;
                    let message = archive.iter().find(|m| m.subject() == subject);
                    assert!(message.unwrap().flags.contains("\\Seen"), "{subject}");
                }
                "move" => {
                    let body = json!({ "destination": "Trash", "folder": "INBOX" });
                    ada.post(&format!("{path}/move"), &body).await.succeeds(200);
                    assert!(subjects(&mut client, "Trash").await.contains(&subject));
                    assert_eq!(ada.uid_of("Trash", &subject).await, uid);
                }
                _ => {
                    let line = format!("DELETE {path}?folder=INBOX");
                    ada.send(&line).await.succeeds(200);
                    assert_gone(&ada, uid).await;
                }
            }
            let left = subjects(&mut client, "Archive").await;
            let stays = !["move", "delete"].contains(&action);
            assert_eq!(left.contains(&subject), stays, "{subject}: {left:?}");
            if stays {
                assert_eq!(ada.uid_of("Archive", &subject).await, uid);
            }
        }
    }
}

#[tokio::test]
async fn a_bulk_change_finds_messages_that_were_moved() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for number in 0..9 {
        append_message(&mut client, "INBOX", &format!("message {number}")).await;
    }
    let uids = ada.uids("INBOX").await;
    for (method, number, to) in [
        (MoveMethod::Move, 1, "Archive"),
        (MoveMethod::CopyAndExpunge, 4, "Archive"),
        (MoveMethod::Move, 7, "Junk"),
    ] {
        let subject = format!("message {number}");
        move_message(&mut client, method, &subject, "INBOX", to).await;
    }
    let bulk = async |action: &str, mut body: serde_json::Value| {
        body["uids"] = json!(uids);
        let path = format!("/api/v1/mail/messages/bulk/{action}");
        let response = ada.post(&path, &body).await.succeeds(200);
        assert_eq!(response, json!({ "success": true, "count": 9 }));
    };
    bulk("flag", json!({ "flags": ["\\Seen"], "action": "add" })).await;
    for folder in ["INBOX", "Archive", "Junk"] {
        let stored = stored_messages(&mut client, folder).await;
        assert!(!stored.is_empty());
        assert!(stored.iter().all(|m| m.flags.contains("\\Seen")));
    }
    bulk("move", json!({ "destination": "Drafts" })).await;
    assert_eq!(subjects(&mut client, "Drafts").await.len(), 9);
    let mut moved = ada.uids("Drafts").await;
    moved.sort_by(|a, b| b.cmp(a));
    assert_eq!(moved, uids);
    move_message(
        &mut client,
        MoveMethod::Move,
        "message 2",
        "Drafts",
        "INBOX",
    )
    .await;
    bulk("delete", json!({})).await;
    for folder in ["INBOX", "Drafts"] {
        assert_eq!(subjects(&mut client, folder).await, [""; 0]);
    }
}

#[tokio::test]
async fn concurrent_moves_by_two_clients_lose_and_duplicate_no_message() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let other_session = ada.sign_in_again().await;
    let mut client = imap(&ada).await;
    for folder in ["Left", "Right"] {
        client.create(folder).await.unwrap();
    }
    for number in 0..10 {
        append_message(&mut client, "INBOX", &format!("message {number}")).await;
    }
    let uids = ada.uids("INBOX").await;
    for uid in &uids {
        let (left, right) = tokio::join!(
            ada.move_to(*uid, "Left"),
            other_session.move_to(*uid, "Right")
        );
        assert_eq!((left.status, right.status), (200, 200));
    }
    // Both clients move all messages again, concurrently.
    let moves = uids.iter().map(|uid| async {
        let (left, right) = tokio::join!(
            other_session.move_to(*uid, "Left"),
            ada.move_to(*uid, "Right")
        );
        assert_eq!((left.status, right.status), (200, 200));
    });
    futures_util::future::join_all(moves).await;
    let mut kept = subjects(&mut client, "Left").await;
    kept.extend(subjects(&mut client, "Right").await);
    kept.sort();
    let all: Vec<String> = (0..10).map(|number| format!("message {number}")).collect();
    assert_eq!(kept, all);
    assert_eq!(subjects(&mut client, "INBOX").await, [""; 0]);
    let mut listed = ada.uids("Left").await;
    listed.extend(ada.uids("Right").await);
    listed.sort_by(|a, b| b.cmp(a));
    assert_eq!(listed, uids);
    for (number, uid) in uids.iter().rev().enumerate() {
        let subject = &ada.message(*uid).await["subject"];
        assert_eq!(*subject, format!("message {number}"));
    }
}

#[tokio::test]
async fn a_message_that_is_deleted_during_a_move_stays_deleted() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let other_session = ada.sign_in_again().await;
    let mut client = imap(&ada).await;
    for number in 0..10 {
        append_message(&mut client, "INBOX", &format!("message {number}")).await;
    }
    for uid in ada.uids("INBOX").await {
        let (moved, deleted) = tokio::join!(ada.move_to(uid, "Archive"), other_session.delete(uid));
        assert_eq!(deleted.status, 200, "{}", deleted.json);
        assert!([200, 404].contains(&moved.status), "{}", moved.json);
        assert_gone(&ada, uid).await;
    }
    for folder in ["INBOX", "Archive"] {
        assert_eq!(subjects(&mut client, folder).await, [""; 0]);
        assert_eq!(ada.uids(folder).await, NO_NUMBERS);
    }
}
