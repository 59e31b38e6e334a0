//! Tests that numbers survive changes by other clients.

use super::in_a_world;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_another_client_moved_is_found_and_keeps_its_number() {
    in_a_world(async |world| {
        let uids = world.with("INBOX", &["a", "b", "c"]).await;
        let mut client = world.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("MOVE 1 Archive");
        assert_eq!(world.subject(uids[0]).await.as_deref(), Some("a"));
        // Move like older clients: COPY, mark and EXPUNGE.
        client.ok("COPY 1 Trash");
        client.ok("STORE 1 +FLAGS (\\Deleted)");
        client.ok("EXPUNGE");
        assert_eq!(world.shown("Trash").await, [("b".into(), uids[1])]);
        assert_eq!(world.subject(uids[1]).await.as_deref(), Some("b"));
        // A change finds the moved message too.
        client.ok("MOVE 1 Drafts");
        let moved = world
            .mail
            .move_to(&world.access, &uids, "Sent")
            .await
            .unwrap();
        assert_eq!(moved.unwrap().len(), 3);
        assert_eq!(world.shown("Sent").await.len(), 3);
        assert_eq!(world.fresh.number("SELECT COUNT(*) FROM messages").await, 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_a_number_of_its_own() {
    in_a_world(async |world| {
        let uids = world.with("INBOX", &["a", "b"]).await;
        let mut client = world.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("COPY 1:2 Archive");
        client.ok("COPY 1 INBOX");
        let copies = world.shown("Archive").await;
        assert!(
            copies.iter().all(|(_, uid)| !uids.contains(uid)),
            "{copies:?}"
        );
        let inbox = world.shown("INBOX").await;
        assert_eq!((inbox[0].1, inbox[1].1), (uids[0], uids[1]));
        assert!(inbox[2].1 > copies[1].1);
        assert_eq!(world.subject(uids[0]).await.as_deref(), Some("a"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_keep_their_numbers_when_their_folder_is_renamed() {
    in_a_world(async |world| {
        let mut client = world.dovecot.client("ada");
        client.ok("CREATE Work");
        let uids = world.with("Work", &["a", "b"]).await;
        client.ok("RENAME Work Play");
        assert_eq!(world.subject(uids[0]).await.as_deref(), Some("a"));
        client.ok("RENAME Play Rest");
        assert_eq!(
            world.shown("Rest").await,
            [("a".into(), uids[0]), ("b".into(), uids[1])]
        );
        // A new folder with the old name is another folder.
        client.ok("CREATE Work");
        let other = world.with("Work", &["a"]).await;
        assert!(!uids.contains(&other[0]));
        let gone = world.mail.delete(&world.access, &uids).await.unwrap();
        assert_eq!(gone.len(), 2);
        assert_eq!(world.shown("Work").await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_keep_their_numbers_when_their_folder_is_made_anew() {
    in_a_world(async |world| {
        let mut client = world.dovecot.client("ada");
        client.ok("CREATE Work");
        let uids = world.with("Work", &["a", "b", "a"]).await;
        // A new folder with the same name and another UIDVALIDITY gets the messages.
        client.ok("CREATE Spare");
        client.ok("SELECT Work");
        client.ok("COPY 1:* Spare");
        client.ok("CLOSE");
        client.ok("DELETE Work");
        client.ok("RENAME Spare Work");
        assert_eq!(world.subject(uids[1]).await.as_deref(), Some("b"));
        let shown: Vec<u64> = world
            .shown("Work")
            .await
            .into_iter()
            .map(|(_, uid)| uid)
            .collect();
        assert_eq!(shown, uids);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_left_together_are_found_below_the_newest_page() {
    in_a_world(async |world| {
        let subjects: Vec<String> = (0..130).map(|n| format!("m{n}")).collect();
        let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
        world.with("INBOX", &subjects[..65]).await;
        world.with("INBOX", &subjects[65..]).await;
        let mut uids: Vec<u64> = Vec::new();
        for offset in [65, 0] {
            let page = world.listing("INBOX", offset, 65).await;
            uids.extend(page.messages.iter().rev().map(|m| m.uid));
        }
        let mut client = world.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("MOVE 1:* Archive");
        // Only the newest messages are listed in the new folder before the oldest one is requested.
        world.listing("Archive", 0, 5).await;
        assert_eq!(world.subject(uids[0]).await.as_deref(), Some("m0"));
        let count = "SELECT COUNT(*) FROM messages";
        assert_eq!(world.fresh.number(count).await, 130);
    })
    .await;
}
