//! Changes of folders: subfolders, names that are used again, and the filter `folder`.

use latchmail_tests::{Imap, MailboxCopy, Person, Service, append_message, imap, store_flags};
use serde_json::{Value, json};

use super::{changes, expunge, fill, types};

#[tokio::test]
async fn a_rename_is_returned_for_each_subfolder_and_for_no_message() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for path in ["Work", "Work/Plans", "Work/Plans/Old", "Workshop"] {
        client.create(path).await.unwrap();
        append_message(&mut client, path, &format!("in {path}")).await;
    }
    let mut copy = MailboxCopy::of(&ada).await;
    client.rename("Work", "Play").await.unwrap();
    let mut renamed = changes(&mut copy, &ada).await;
    renamed.sort_by_key(|change| change["folder"].to_string());
    let mut expected = Vec::new();
    for (from, to) in [
        ("Work", "Play"),
        ("Work/Plans", "Play/Plans"),
        ("Work/Plans/Old", "Play/Plans/Old"),
    ] {
        let id = ada.folder_id(to).await;
        expected.push(json!({ "type": "folderRenamed", "folder": to, "from": from, "id": id }));
    }
    assert_eq!(renamed, expected);
    // A message that is moved at the same time has the new names.
    let uid = ada.uid_of("Play%2FPlans", "in Work/Plans").await;
    client.select("Play/Plans").await.unwrap();
    client.uid_mv("1", "Play").await.unwrap();
    client.examine("INBOX").await.unwrap();
    client.rename("Play", "Fun").await.unwrap();
    let moved = changes(&mut copy, &ada).await;
    assert_eq!(moved.len(), 4, "{moved:?}");
    let expected = json!(
        { "type": "moved", "uid": uid, "folder": "Fun", "from": "Fun/Plans", "flags": [] }
    );
    assert_eq!(moved[3], expected);
}

#[tokio::test]
async fn two_folders_can_exchange_their_names() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for path in ["Work", "Play"] {
        client.create(path).await.unwrap();
        append_message(&mut client, path, &format!("in {path}")).await;
    }
    let mut copy = MailboxCopy::of(&ada).await;
    for (from, to) in [("Work", "Swap"), ("Play", "Work"), ("Swap", "Play")] {
        client.rename(from, to).await.unwrap();
    }
    let changed = changes(&mut copy, &ada).await;
    assert!(
        types(&changed).iter().all(|one| *one == "folderRenamed"),
        "{changed:?}"
    );
    ada.uid_of("Play", "in Work").await;
    assert_eq!(copy.content(), ada.content_equal_to_imap(&mut client).await);
}

#[tokio::test]
async fn a_folder_that_is_created_again_is_deleted_before() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("Work").await.unwrap();
    append_message(&mut client, "Work", "one").await;
    append_message(&mut client, "Work", "two").await;
    let old = ada.folder_id("Work").await;
    let two = ada.uid_of("Work", "two").await;
    let mut copy = MailboxCopy::of(&ada).await;
    // One message leaves the folder before it is deleted.
    client.select("Work").await.unwrap();
    client.uid_mv("2", "INBOX").await.unwrap();
    client.examine("INBOX").await.unwrap();
    client.delete("Work").await.unwrap();
    client.create("Work").await.unwrap();
    append_message(&mut client, "Work", "three").await;
    let changed = changes(&mut copy, &ada).await;
    let new = ada.folder_id("Work").await;
    assert_ne!(old, new);
    let position = |wanted: &Value| {
        let found = changed.iter().position(|change| change == wanted);
        found.unwrap_or_else(|| panic!("no {wanted}: {changed:?}"))
    };
    let deleted = position(&json!({ "type": "folderDeleted", "folder": "Work", "id": old }));
    let created = position(&json!({ "type": "folderCreated", "folder": "Work", "id": new }));
    let three = ada.uid_of("Work", "three").await;
    let message =
        position(&json!({ "type": "created", "uid": three, "folder": "Work", "flags": [] }));
    assert!(deleted < created && created < message, "{changed:?}");
    // A message that still exists is never reported as deleted.
    let is_it = |change: &&Value| change["uid"] == two;
    let moved: Vec<_> = changed.iter().filter(is_it).collect();
    assert_eq!(moved.len(), 1, "{changed:?}");
    assert_eq!(
        (&moved[0]["type"], &moved[0]["folder"]),
        (&json!("moved"), &json!("INBOX"))
    );
}

#[tokio::test]
async fn a_deleted_folder_with_subfolders_is_returned_once() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for path in ["Work", "Work/Plans"] {
        client.create(path).await.unwrap();
        append_message(&mut client, path, &format!("in {path}")).await;
    }
    let mut copy = MailboxCopy::of(&ada).await;
    client.delete("Work").await.unwrap();
    let changed = changes(&mut copy, &ada).await;
    let folders: Vec<_> = changed
        .iter()
        .filter(|change| change["type"] == "folderDeleted")
        .map(|change| &change["folder"])
        .collect();
    assert_eq!(folders, ["Work"]);
    ada.uid_of("Work%2FPlans", "in Work/Plans").await;
}

/// Returns the changes in one folder since a cursor, and stores the next cursor.
async fn in_folder(person: &Person<'_>, folder: &str, cursor: &mut String) -> Vec<Value> {
    let folder = latchmail_tests::percent_encoded(folder);
    let rest = format!("&folder={folder}&limit=500");
    let page = person.changes(cursor, &rest).await.succeeds(200);
    assert_eq!(page["more"], false);
    page["cursor"].as_str().unwrap().clone_into(cursor);
    page["changes"].as_array().unwrap().clone()
}

async fn copy_to(client: &mut Imap, from: &str, uid: u32, to: &str) {
    client.select(from).await.unwrap();
    client.uid_copy(uid.to_string(), to).await.unwrap();
}

#[tokio::test]
async fn the_changes_of_one_folder_have_its_messages_only() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let [one, two, three] = fill(&ada, &mut client, ["one", "two", "three"]).await;
    let (mut inbox, mut archive) = (String::new(), String::new());
    for (folder, cursor) in [("INBOX", &mut inbox), ("Archive", &mut archive)] {
        assert!(in_folder(&ada, folder, cursor).await.is_empty());
    }
    ada.move_to(one, "Archive").await.succeeds(200);
    store_flags(&mut client, "INBOX", 2, "+FLAGS (\\Seen)").await;
    append_message(&mut client, "Sent", "elsewhere").await;
    let mut of_inbox = in_folder(&ada, "INBOX", &mut inbox).await;
    of_inbox.sort_by_key(|change| change["uid"].as_u64());
    let expected = json!([
        { "type": "deleted", "uid": one, "folder": "INBOX" },
        { "type": "flags", "uid": two, "folder": "INBOX", "flags": ["\\Seen"] },
    ]);
    assert_eq!(json!(of_inbox), expected);
    let expected = json!([{ "type": "created", "uid": one, "folder": "Archive", "flags": [] }]);
    assert_eq!(
        json!(in_folder(&ada, "Archive", &mut archive).await),
        expected
    );

    // Through the folder between two cursors: nothing.
    ada.move_to(three, "Archive").await.succeeds(200);
    ada.changes("", "").await.succeeds(200);
    ada.move_to(three, "Sent").await.succeeds(200);
    assert!(in_folder(&ada, "Archive", &mut archive).await.is_empty());
    let expected = json!([{ "type": "deleted", "uid": three, "folder": "INBOX" }]);
    assert_eq!(json!(in_folder(&ada, "INBOX", &mut inbox).await), expected);

    copy_to(&mut client, "INBOX", 2, "Archive").await;
    let copied = in_folder(&ada, "Archive", &mut archive).await;
    assert_eq!(types(&copied), ["created"]);
    assert_ne!(copied[0]["uid"], two);
    expunge(&mut client, "INBOX", 2).await;
    let expected = json!([{ "type": "deleted", "uid": two, "folder": "INBOX" }]);
    assert_eq!(json!(in_folder(&ada, "INBOX", &mut inbox).await), expected);
    // INBOX ignores case.
    append_message(&mut client, "INBOX", "five").await;
    let created = in_folder(&ada, "inbox", &mut inbox).await;
    assert_eq!(
        (types(&created), &created[0]["folder"]),
        (vec!["created"], &json!("INBOX"))
    );
}
