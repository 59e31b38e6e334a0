//! Folders and messages keep the mail server's ids, whatever another
//! IMAP client does between two requests.

use latchmail_tests::{
    Person, Relay, Service, append_message, imap, message_with_subject, subjects,
};

use super::message_numbers::{MoveMethod, delete_message, move_message};

#[tokio::test]
async fn a_folder_keeps_its_id_through_renames_and_deleted_messages() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("A").await.unwrap();
    append_message(&mut client, "A", "one").await;
    ada.messages("A").await;
    let id = ada.folder_id("A").await;
    client.rename("A", "B").await.unwrap();
    append_message(&mut client, "B", "two").await;
    delete_message(&mut client, "B", "one").await;
    client.close().await.unwrap();
    let renamed = ada.folder_id("B").await;
    client.rename("B", "C").await.unwrap();
    delete_message(&mut client, "C", "two").await;
    client.close().await.unwrap();
    assert_eq!(
        [renamed, ada.folder_id("C").await],
        [id.clone(), id.clone()]
    );
    // Two folders exchange their names, and a new folder takes the name of a deleted one.
    client.create("D").await.unwrap();
    let other = ada.folder_id("D").await;
    for (from, to) in [("C", "E"), ("D", "C"), ("E", "D")] {
        client.rename(from, to).await.unwrap();
    }
    assert_eq!(ada.folder_id("D").await, id);
    assert_eq!(ada.folder_id("C").await, other);
    client.delete("C").await.unwrap();
    client.rename("D", "C").await.unwrap();
    client.create("D").await.unwrap();
    assert_eq!(ada.folder_id("C").await, id);
    let new = ada.folder_id("D").await;
    assert!(new != id && new != other);
}

#[tokio::test]
async fn a_moved_copy_keeps_its_number_and_the_deleted_originals_never_returns() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for method in [MoveMethod::Move, MoveMethod::CopyAndExpunge] {
        // The way in which the service detects that the original is gone.
        for shown in ["messages", "folders", "by number"] {
            let subject = format!("{method:?}, {shown}");
            let folder = |name: &str| format!("{name} {method:?} {shown}");
            let [a, b, c] = ["A", "B", "C"].map(folder);
            for folder in [&a, &b, &c] {
                client.create(folder).await.unwrap();
            }
            append_message(&mut client, &a, &subject).await;
            client.select(&a).await.unwrap();
            client.uid_copy("1", &b).await.unwrap();
            let original = ada.uid_of(&a, &subject).await;
            let copy = ada.uid_of(&b, &subject).await;
            delete_message(&mut client, &a, &subject).await;
            client.close().await.unwrap();
            match shown {
                "messages" => assert!(ada.uids(&a).await.is_empty()),
                "folders" => drop(ada.folder_id(&a).await),
                _ => assert_gone(&ada, original).await,
            }
            move_message(&mut client, method, &subject, &b, &c).await;
            assert_eq!(ada.uids(&c).await, [copy], "{subject}");
            assert_gone(&ada, original).await;
            assert_eq!(ada.message(copy).await["subject"], subject);
        }
    }
}

#[tokio::test]
async fn messages_with_copies_keep_their_numbers_when_they_move() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for folder in ["A", "B", "C", "D"] {
        client.create(folder).await.unwrap();
    }
    append_message(&mut client, "A", "one").await;
    client.select("A").await.unwrap();
    client.uid_copy("1", "B").await.unwrap();
    let (original, copy) = (ada.uids("A").await, ada.uids("B").await);
    assert_ne!(original, copy);
    // The message's old folder is listed before its new one, and after it.
    move_message(&mut client, MoveMethod::Move, "one", "A", "C").await;
    assert!(ada.uids("A").await.is_empty());
    assert_eq!(ada.uids("C").await, original);
    move_message(&mut client, MoveMethod::CopyAndExpunge, "one", "C", "D").await;
    assert_eq!(ada.uids("D").await, original);
    assert!(ada.uids("C").await.is_empty());
    assert_eq!(ada.uids("B").await, copy);
    // Deleting a folder deletes the copy in it and no other.
    client.close().await.unwrap();
    client.delete("D").await.unwrap();
    let folders = ada.send("GET /api/v1/mail/folders").await.succeeds(200);
    assert!(!folders.to_string().contains("\"D\""));
    move_message(&mut client, MoveMethod::Move, "one", "B", "A").await;
    assert_eq!(ada.uids("A").await, copy);
    assert_gone(&ada, original[0]).await;
}

#[tokio::test]
async fn a_message_that_moves_during_its_deletion_is_deleted_and_its_copies_stay() {
    let relay = Relay::new().await;
    let service = Service::with_mail_and(&format!("imap.address = '{}'", relay.address)).await;
    relay.set_target(service.mail().imap);
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for (method, to) in [
        (MoveMethod::Move, "Archive"),
        (MoveMethod::CopyAndExpunge, "New"),
    ] {
        let subject = format!("{method:?}");
        append_message(&mut client, "INBOX", &subject).await;
        // The service does not know the copy when it deletes the original.
        client.select("INBOX").await.unwrap();
        client.copy("1", "Trash").await.unwrap();
        let uid = ada.uid_of("INBOX", &subject).await;
        relay.hold_at("UID EXPUNGE");
        let deleting = ada.delete(uid);
        let moving = async {
            relay.wait_until_held().await;
            client.select("INBOX").await.unwrap();
            while client.search("DELETED").await.unwrap().is_empty() {}
            client.create(to).await.ok();
            move_message(&mut client, method, &subject, "INBOX", to).await;
            relay.release();
        };
        let (deleted, ()) = tokio::join!(deleting, moving);
        deleted.succeeds(200);
        for folder in ["INBOX", to] {
            assert_eq!(
                subjects(&mut client, folder).await,
                [""; 0],
                "{subject} in {folder}"
            );
        }
        assert_gone(&ada, uid).await;
        let copy = ada.uid_of("Trash", &subject).await;
        assert!(copy > uid);
        assert_eq!(ada.message(copy).await["subject"], subject);
    }
}

/// The table in docs/http-api.md: a mail server with neither X-GUID nor OBJECTID.
#[tokio::test]
async fn without_the_mail_servers_ids_messages_are_recognized_by_their_data() {
    let relay = Relay::new().await;
    let service = Service::with_mail_and(&format!("imap.address = '{}'", relay.address)).await;
    relay.set_target(service.mail().imap);
    relay.rewrite("STATUS INBOX (X-GUID)", "STATUS INBOX (X-NONE)");
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for folder in ["A", "B"] {
        client.create(folder).await.unwrap();
    }
    append_message(&mut client, "A", "one").await;
    let arrived = Some("\"20-Nov-2026 08:00:00 +0000\"");
    for _ in 0..2 {
        let twin = client.append("A", None, arrived, message_with_subject("twin"));
        twin.await.unwrap();
    }
    let id = ada.folder_id("A").await;
    assert_ne!(id, ada.folder_id("B").await);
    let uids = ada.uids("A").await;
    let [newer, older, one] = uids[..] else {
        panic!("{uids:?}")
    };
    // The unique message keeps its number. Of the twins, the one that moves gets another number and
    // the other keeps its own.
    client.select("A").await.unwrap();
    client.uid_mv("1:2", "B").await.unwrap();
    let moved = ada.uids("B").await;
    assert!(moved[1] == one && moved[0] > newer, "{moved:?}");
    assert_eq!(ada.uids("A").await, [newer]);
    assert_gone(&ada, older).await;
    // A renamed folder is a new folder with the same messages.
    client.close().await.unwrap();
    client.rename("B", "C").await.unwrap();
    assert_eq!(ada.message(one).await["subject"], "one");
    let renamed = ada.uids("C").await;
    assert!(renamed[1] == one, "{renamed:?}");
    assert_eq!(ada.folder_id("A").await, id);
}

async fn assert_gone(person: &Person<'_>, uid: u64) {
    let line = format!("GET /api/v1/mail/messages/{uid}");
    person.send(&line).await.fails(404, "Message not found");
}
