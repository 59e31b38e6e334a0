//! Tests that messages keep their numbers after changes by other clients.

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_imap::change::Moved;

use super::with_mailbox;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_moved_by_another_client_keeps_its_number() {
    with_mailbox(async |test| {
        let uids = test.append("INBOX", &["a", "b", "c"]).await;
        let mut client = test.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("MOVE 1 Archive");
        assert_eq!(test.subject(uids[0]).await.as_deref(), Some("a"));
        // Move like older clients: COPY, mark as deleted, EXPUNGE.
        client.ok("COPY 1 Trash");
        client.ok("STORE 1 +FLAGS (\\Deleted)");
        client.ok("EXPUNGE");
        assert_eq!(test.contents("Trash").await, [("b".into(), uids[1])]);
        assert_eq!(test.subject(uids[1]).await.as_deref(), Some("b"));
        // A change finds the moved message too.
        client.ok("MOVE 1 Drafts");
        let moved = test
            .mail
            .changing
            .move_to(&test.access, &uids, "Sent", None)
            .await
            .unwrap();
        assert_eq!(moved.unwrap().len(), 3);
        assert_eq!(test.contents("Sent").await.len(), 3);
        assert_eq!(test.fresh.number("SELECT COUNT(*) FROM messages").await, 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_gets_its_own_number() {
    with_mailbox(async |test| {
        let uids = test.append("INBOX", &["a", "b"]).await;
        let mut client = test.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("COPY 1:2 Archive");
        client.ok("COPY 1 INBOX");
        let copies = test.contents("Archive").await;
        assert!(
            copies.iter().all(|(_, uid)| !uids.contains(uid)),
            "{copies:?}"
        );
        let inbox = test.contents("INBOX").await;
        assert_eq!((inbox[0].1, inbox[1].1), (uids[0], uids[1]));
        assert!(inbox[2].1 > copies[1].1);
        assert_eq!(test.subject(uids[0]).await.as_deref(), Some("a"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_keep_their_numbers_if_their_folder_is_renamed() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.ok("CREATE Work");
        let uids = test.append("Work", &["a", "b"]).await;
        client.ok("RENAME Work Play");
        assert_eq!(test.subject(uids[0]).await.as_deref(), Some("a"));
        client.ok("RENAME Play Rest");
        assert_eq!(
            test.contents("Rest").await,
            [("a".into(), uids[0]), ("b".into(), uids[1])]
        );
        // A new folder with the old name is another folder.
        client.ok("CREATE Work");
        let other = test.append("Work", &["a"]).await;
        assert!(!uids.contains(&other[0]));
        let deleted = test
            .mail
            .changing
            .delete(&test.access, &uids, None)
            .await
            .unwrap();
        assert_eq!(deleted.len(), 2);
        assert_eq!(test.contents("Work").await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_keep_their_numbers_if_their_folder_is_replaced() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.ok("CREATE Work");
        let uids = test.append("Work", &["a", "b", "a"]).await;
        // A new folder with the same name and another UIDVALIDITY gets the messages.
        client.ok("CREATE Spare");
        client.ok("SELECT Work");
        client.ok("COPY 1:* Spare");
        client.ok("CLOSE");
        client.ok("DELETE Work");
        client.ok("RENAME Spare Work");
        assert_eq!(test.subject(uids[1]).await.as_deref(), Some("b"));
        let numbers: Vec<MessageNumber> = test
            .contents("Work")
            .await
            .into_iter()
            .map(|(_, uid)| uid)
            .collect();
        assert_eq!(numbers, uids);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_moved_together_are_found_beyond_the_newest_page() {
    with_mailbox(async |test| {
        let subjects: Vec<String> = (0..130).map(|n| format!("m{n}")).collect();
        let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
        test.append("INBOX", &subjects[..65]).await;
        test.append("INBOX", &subjects[65..]).await;
        let mut uids: Vec<MessageNumber> = Vec::new();
        for offset in [65, 0] {
            let page = test.listing("INBOX", offset, 65).await;
            uids.extend(page.messages.iter().rev().map(|m| m.number));
        }
        let mut client = test.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("MOVE 1:* Archive");
        // Only the newest messages are listed in the new folder before the oldest one is requested.
        test.listing("Archive", 0, 5).await;
        assert_eq!(test.subject(uids[0]).await.as_deref(), Some("m0"));
        let count = "SELECT COUNT(*) FROM messages";
        assert_eq!(test.fresh.number(count).await, 130);
    })
    .await;
}

/// A server can copy a message to its new folder some time before it removes the original.
#[tokio::test(flavor = "multi_thread")]
async fn a_listing_during_a_move_does_not_change_the_number() {
    with_mailbox(async |test| {
        let number = test.append("INBOX", &["a"]).await[0];
        let mut client = test.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("COPY 1 Archive");
        let copy = test.listing("Archive", 0, 1).await.messages[0].number;
        assert_ne!(copy, number);
        client.ok("STORE 1 +FLAGS (\\Deleted)");
        client.ok("EXPUNGE");
        let states = test.mail.folders.states(&test.access).await.unwrap();
        let archive = states.iter().find(|state| state.path == "Archive").unwrap();
        let moved = Moved {
            uid_validity: archive.opened.uid_validity,
            uids: vec![(Uid(1), Uid(1))],
        };
        test.mail
            .numbers
            .store_moved(&test.access, &[(number, Uid(1))], "Archive", &moved)
            .await;
        assert_eq!(
            test.listing("Archive", 0, 1).await.messages[0].number,
            number
        );
        assert_eq!(test.detail(number).await.summary.number, number);
    })
    .await;
}
