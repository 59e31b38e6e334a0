//! Each kind of change, made by another client and by the API.

use latchmail_tests::{
    MailboxCopy, Service, append_message, imap, message_with_subject, store_flags,
};
use serde_json::json;

use super::{changes, expunge, fill};

#[tokio::test]
async fn the_first_call_returns_a_cursor_without_changes() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    append_message(&mut client, "INBOX", "one").await;
    let start = ada.changes("", "").await.succeeds(200);
    let fields: Vec<_> = start.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["changes", "cursor", "more"]);
    let cursor = start["cursor"].as_str().unwrap();
    assert!(!cursor.is_empty());
    assert_eq!(
        (&start["changes"], &start["more"]),
        (&json!([]), &json!(false))
    );
    for _ in 0..2 {
        let next = ada.changes(cursor, "").await.succeeds(200);
        assert_eq!(
            (&next["changes"], &next["more"]),
            (&json!([]), &json!(false))
        );
    }
}

#[tokio::test]
async fn changes_by_another_client_are_returned() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let [one, two] = fill(&ada, &mut client, ["one", "two"]).await;
    let mut copy = MailboxCopy::of(&ada).await;

    let message = message_with_subject("three");
    let appended = client.append("Archive", Some("(\\Seen $Work)"), None, message);
    appended.await.unwrap();
    let created = changes(&mut copy, &ada).await;
    let three = ada.uid_of("Archive", "three").await;
    let expected = json!([
        { "type": "created", "uid": three, "folder": "Archive", "flags": created[0]["flags"] },
    ]);
    assert_eq!(json!(created), expected);
    let mut flags: Vec<_> = created[0]["flags"].as_array().unwrap().iter().collect();
    flags.sort_by_key(ToString::to_string);
    assert_eq!(flags, ["$Work", "\\Seen"]);

    store_flags(&mut client, "INBOX", 1, "+FLAGS (\\Flagged)").await;
    let expected = json!([
        { "type": "flags", "uid": one, "folder": "INBOX", "flags": ["\\Flagged"] },
    ]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);

    client.uid_mv("1", "Archive").await.unwrap();
    let expected = json!([
        { "type": "moved", "uid": one, "folder": "Archive", "from": "INBOX", "flags": ["\\Flagged"] },
    ]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);

    expunge(&mut client, "INBOX", 2).await;
    let expected = json!([{ "type": "deleted", "uid": two, "folder": "INBOX" }]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);

    // COPY with EXPUNGE is a move.
    client.select("Archive").await.unwrap();
    client.uid_copy("2", "INBOX").await.unwrap();
    expunge(&mut client, "Archive", 2).await;
    let expected = json!([
        { "type": "moved", "uid": one, "folder": "INBOX", "from": "Archive", "flags": ["\\Flagged"] },
    ]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);

    client.select("Archive").await.unwrap();
    client.uid_copy("1", "Sent").await.unwrap();
    let copied = changes(&mut copy, &ada).await;
    assert_eq!((copied.len(), &copied[0]["type"]), (1, &json!("created")));
    assert_ne!(copied[0]["uid"], three);

    client.create("Projects").await.unwrap();
    let id = ada.folder_id("Projects").await;
    let expected = json!([{ "type": "folderCreated", "folder": "Projects", "id": id }]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);
    client.rename("Projects", "Work/Projects").await.unwrap();
    let renamed = changes(&mut copy, &ada).await;
    let expected = json!(
        { "type": "folderRenamed", "folder": "Work/Projects", "from": "Projects", "id": id }
    );
    assert!(renamed.contains(&expected), "{renamed:?}");
    client.delete("Work/Projects").await.unwrap();
    let deleted = changes(&mut copy, &ada).await;
    let expected = json!({ "type": "folderDeleted", "folder": "Work/Projects", "id": id });
    assert!(deleted.contains(&expected), "{deleted:?}");
}

/// A listing assigns a number to a message before the change log contains the message.
#[tokio::test]
async fn a_message_that_was_created_listed_and_deleted_between_two_calls_is_returned_as_deleted() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let start = ada.changes("", "").await.succeeds(200);
    append_message(&mut client, "INBOX", "one").await;
    let uid = ada.uid_of("INBOX", "one").await;
    expunge(&mut client, "INBOX", 1).await;
    let next = ada.changes(start["cursor"].as_str().unwrap(), "").await;
    let expected = json!([{ "type": "deleted", "uid": uid, "folder": "INBOX" }]);
    assert_eq!(next.succeeds(200)["changes"], expected);
}

#[tokio::test]
async fn changes_by_the_api_are_returned() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let [one, two, three] = fill(&ada, &mut client, ["one", "two", "three"]).await;
    let mut copy = MailboxCopy::of(&ada).await;

    let body = json!({ "flags": ["\\Seen"], "action": "add" });
    let path = format!("/api/v1/mail/messages/{one}/flag");
    ada.post(&path, &body).await.succeeds(200);
    let expected = json!([
        { "type": "flags", "uid": one, "folder": "INBOX", "flags": ["\\Seen"] },
    ]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);

    ada.move_to(one, "Archive").await.succeeds(200);
    let expected = json!([
        { "type": "moved", "uid": one, "folder": "Archive", "from": "INBOX", "flags": ["\\Seen"] },
    ]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);

    ada.delete(two).await.succeeds(200);
    let expected = json!([{ "type": "deleted", "uid": two, "folder": "INBOX" }]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);

    let body = json!({ "uids": [one, three], "destination": "Trash" });
    let path = "/api/v1/mail/messages/bulk/move";
    ada.post(path, &body).await.succeeds(200);
    let mut moved = changes(&mut copy, &ada).await;
    moved.sort_by_key(|change| change["uid"].as_u64());
    let expected = json!([
        { "type": "moved", "uid": one, "folder": "Trash", "from": "Archive", "flags": ["\\Seen"] },
        { "type": "moved", "uid": three, "folder": "Trash", "from": "INBOX", "flags": [] },
    ]);
    assert_eq!(json!(moved), expected);

    let mail = json!({
        "from": ada.address, "to": "bob@outside.test", "subject": "sent", "text": "Hello.",
    });
    ada.post("/api/v1/mail/send", &mail).await.succeeds(200);
    let sent = changes(&mut copy, &ada).await;
    let uid = ada.uid_of("Sent", "sent").await;
    assert_eq!(
        (sent.len(), &sent[0]["type"], &sent[0]["uid"]),
        (1, &json!("created"), &json!(uid))
    );
}

#[tokio::test]
async fn a_delivered_message_is_returned() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut copy = MailboxCopy::of(&ada).await;
    ada.receive("From: a@outside.test\nTo: ada@first.test\nSubject: one\n\nbody\n")
        .await;
    let uid = ada.uid_of("INBOX", "one").await;
    let expected = json!([{ "type": "created", "uid": uid, "folder": "INBOX", "flags": [] }]);
    assert_eq!(json!(changes(&mut copy, &ada).await), expected);
}

#[tokio::test]
async fn what_other_clients_did_while_the_service_was_stopped_is_returned() {
    let mut service = Service::with_mail().await;
    let (mut copy, person, mut client, uids) = {
        let ada = service.person("ada").await;
        let mut client = imap(&ada).await;
        client.create("Work").await.unwrap();
        let uids = fill(&ada, &mut client, ["one", "two", "three"]).await;
        let copy = MailboxCopy::of(&ada).await;
        (copy, (ada.access, ada.address), client, uids)
    };
    let [one, two, three] = uids;
    service.stop().await;
    store_flags(&mut client, "INBOX", 1, "+FLAGS (\\Seen)").await;
    client.uid_mv("2", "Work").await.unwrap();
    expunge(&mut client, "INBOX", 3).await;
    append_message(&mut client, "INBOX", "four").await;
    client.rename("Work", "Play").await.unwrap();
    client.create("Work").await.unwrap();
    append_message(&mut client, "Work", "five").await;
    service.restart().await;
    let ada = latchmail_tests::Person {
        service: &service,
        access: person.0,
        address: person.1,
        refresh: String::new(),
    };
    let changes = changes(&mut copy, &ada).await;
    for expected in [
        json!({ "type": "flags", "uid": one, "folder": "INBOX", "flags": ["\\Seen"] }),
        json!({ "type": "moved", "uid": two, "folder": "Play", "from": "INBOX", "flags": [] }),
        json!({ "type": "deleted", "uid": three, "folder": "INBOX" }),
        json!({ "type": "created", "uid": ada.uid_of("INBOX", "four").await, "folder": "INBOX", "flags": [] }),
        json!({ "type": "created", "uid": ada.uid_of("Work", "five").await, "folder": "Work", "flags": [] }),
        json!({ "type": "folderRenamed", "folder": "Play", "from": "Work", "id": ada.folder_id("Play").await }),
        json!({ "type": "folderCreated", "folder": "Work", "id": ada.folder_id("Work").await }),
    ] {
        assert!(changes.contains(&expected), "{expected}: {changes:?}");
    }
    assert_eq!(changes.len(), 7, "{changes:?}");
}
