//! Tests of flagging, moving and deleting messages, checked with another client.

use std::sync::Arc;

use latchmail_core::message_number::MessageNumber;

use super::dovecot::Client;
use super::{TestMailbox, short_message, with_mailbox};
use crate::{Error, Flag, StoreMode};

impl TestMailbox {
    /// Appends messages with these subjects to a folder. Returns their numbers in the same order.
    pub(super) async fn append(&self, folder: &str, subjects: &[&str]) -> Vec<MessageNumber> {
        let mut client = self.dovecot.client("ada");
        for subject in subjects {
            client.append(folder, "()", &short_message(subject, "x"));
        }
        let listing = self
            .listing(folder, 0, u32::try_from(subjects.len()).unwrap())
            .await;
        listing.messages.iter().rev().map(|m| m.number).collect()
    }

    /// Returns the subjects and numbers in a folder, oldest first.
    pub(super) async fn contents(&self, folder: &str) -> Vec<(String, MessageNumber)> {
        let listing = self.listing(folder, 0, 100).await;
        let entry = |m: crate::Summary| (m.subject, m.number);
        listing.messages.into_iter().rev().map(entry).collect()
    }

    /// Adds a flag to messages. Returns the numbers of those that exist, in ascending order.
    async fn add_flag(&self, flag: &str, uids: &[MessageNumber]) -> Vec<MessageNumber> {
        let flags = flags(&[flag]);
        let found = self
            .mail
            .changing
            .flag(&self.access, uids, (flags, StoreMode::Add), None)
            .await;
        let mut found = found.unwrap();
        found.sort_unstable();
        found
    }

    /// Returns the subject of a message, or `None` if the message does not exist.
    pub(super) async fn subject(&self, uid: MessageNumber) -> Option<String> {
        let detail = self.mail.reading.message(&self.access, uid).await.unwrap();
        detail.map(|detail| detail.summary.subject)
    }
}

fn flags(names: &[&str]) -> Vec<Flag> {
    names
        .iter()
        .map(|name| Flag::named(name).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_are_added_and_removed_in_every_folder() {
    with_mailbox(async |test| {
        let inbox = test.append("INBOX", &["a", "b", "c"]).await;
        let sent = test.append("Sent", &["d"]).await;
        let numbers = [inbox[0], inbox[2], sent[0], MessageNumber(999)];
        let add = flags(&["\\Seen", "$Important"]);
        let mut found = test
            .mail
            .changing
            .flag(&test.access, &numbers, (add, StoreMode::Add), None)
            .await
            .unwrap();
        found.sort_unstable();
        assert_eq!(found, [inbox[0], inbox[2], sent[0]]);
        let mut client = test.dovecot.client("ada");
        client.ok("EXAMINE INBOX");
        let replies = client.ok("FETCH 1:* (FLAGS)");
        let flagged = replies
            .lines()
            .filter(|l| l.contains("\\Seen") && l.contains("$Important"));
        assert_eq!(flagged.count(), 2);
        let remove = flags(&["\\seen"]);
        test.mail
            .changing
            .flag(&test.access, &inbox, (remove, StoreMode::Remove), None)
            .await
            .unwrap();
        assert!(!client.ok("FETCH 1:* (FLAGS)").contains("\\Seen"));
        client.ok("EXAMINE Sent");
        assert!(client.ok("FETCH 1 (FLAGS)").contains("\\Seen"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_are_set_on_the_right_messages_after_changes_by_another_client() {
    with_mailbox(async |test| {
        let uids = test.append("INBOX", &["a", "b", "c", "d"]).await;
        let [a, _, c, d] = uids[..] else { panic!() };
        assert_eq!(test.add_flag("\\Seen", &uids).await, uids);
        let mut client = test.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("MOVE 1 Archive");
        client.ok("STORE 1 +FLAGS (\\Deleted)");
        client.ok("EXPUNGE");
        assert_eq!(test.add_flag("\\Flagged", &uids).await, [a, c, d]);
        assert_eq!(count(&mut client, "INBOX", "FLAGGED"), 2);
        assert_eq!(count(&mut client, "Archive", "FLAGGED"), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_messages_in_a_renamed_folder_does_not_affect_a_new_folder_with_the_old_name() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.ok("CREATE Work");
        let uids = test.append("Work", &["a", "b"]).await;
        assert_eq!(test.add_flag("\\Seen", &uids).await, uids);
        client.ok("RENAME Work Play");
        client.ok("CREATE Work");
        for subject in ["c", "d", "e"] {
            client.append("Work", "()", &short_message(subject, "x"));
        }
        let before = client.ok("STATUS Work (MESSAGES UIDNEXT UIDVALIDITY)");
        assert_eq!(test.add_flag("\\Flagged", &uids).await, uids);
        assert_eq!(count(&mut client, "Play", "FLAGGED"), 2);
        client.ok("EXAMINE INBOX");
        client.ok("DELETE Play");
        assert!(test.add_flag("\\Answered", &uids).await.is_empty());
        for flag in ["FLAGGED", "ANSWERED"] {
            assert_eq!(count(&mut client, "Work", flag), 0);
        }
        client.ok("EXAMINE INBOX");
        let after = client.ok("STATUS Work (MESSAGES UIDNEXT UIDVALIDITY)");
        assert_eq!(after.lines().next(), before.lines().next());
    })
    .await;
}

/// Returns the number of messages in a folder that match a search key.
fn count(client: &mut Client, folder: &str, key: &str) -> usize {
    client.ok(&format!("EXAMINE {folder}"));
    let replies = client.ok(&format!("SEARCH {key}"));
    let found = replies
        .lines()
        .find_map(|line| line.strip_prefix("* SEARCH"));
    found.unwrap().split_whitespace().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_messages_keep_their_numbers_and_can_be_read_at_their_new_location() {
    with_mailbox(async |test| {
        let uids = test.append("INBOX", &["a", "b", "c"]).await;
        let moved = test
            .mail
            .changing
            .move_to(
                &test.access,
                &[uids[0], uids[2], MessageNumber(77)],
                "Archive",
                None,
            )
            .await;
        assert_eq!(moved.unwrap().unwrap(), [uids[0], uids[2]]);
        assert_eq!(test.contents("INBOX").await, [("b".into(), uids[1])]);
        let archived = [("a".into(), uids[0]), ("c".into(), uids[2])];
        assert_eq!(test.contents("Archive").await, archived);
        assert_eq!(test.subject(uids[0]).await.as_deref(), Some("a"));
        // Moving messages to the folder they are in changes nothing.
        let again = test
            .mail
            .changing
            .move_to(&test.access, &[uids[0]], "Archive", None)
            .await;
        assert_eq!(again.unwrap().unwrap(), [uids[0]]);
        assert_eq!(test.contents("Archive").await, archived);
        for missing in ["Nope", "Sent\r\n", "", "\n"] {
            let none = test
                .mail
                .changing
                .move_to(&test.access, &[uids[1]], missing, None)
                .await
                .unwrap();
            assert_eq!(none, None, "{missing:?}");
        }
        test.dovecot.client("ada").ok("CREATE &ANw-bung/Ordner");
        let nested = test
            .mail
            .changing
            .move_to(&test.access, &uids, "Übung/Ordner", None)
            .await
            .unwrap();
        assert_eq!(nested.unwrap().len(), 3);
        let back = test
            .mail
            .changing
            .move_to(&test.access, &uids, "inbox", None)
            .await
            .unwrap();
        assert_eq!(back.unwrap().len(), 3);
        assert_eq!(test.contents("INBOX").await.len(), 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_given_messages_are_deleted() {
    with_mailbox(async |test| {
        let uids = test.append("INBOX", &["a", "b", "c"]).await;
        let mut client = test.dovecot.client("ada");
        client.ok("SELECT INBOX");
        // A message that another client has marked as deleted must not be removed.
        client.ok("STORE 2 +FLAGS (\\Deleted)");
        let deleted = test
            .mail
            .changing
            .delete(&test.access, &[uids[2], uids[2]], None)
            .await
            .unwrap();
        assert_eq!(deleted, [uids[2]]);
        let left = [("a".into(), uids[0]), ("b".into(), uids[1])];
        assert_eq!(test.contents("INBOX").await, left);
        assert_eq!(test.subject(uids[2]).await, None);
        let again = test
            .mail
            .changing
            .delete(&test.access, &[uids[2]], None)
            .await
            .unwrap();
        assert!(again.is_empty());
        // The number is not assigned again.
        assert!(test.append("INBOX", &["d"]).await[0] > uids[2]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_started_change_completes_even_if_the_caller_no_longer_waits() {
    with_mailbox(async |test| {
        let uids = test.append("INBOX", &["a", "b"]).await;
        let cancelled = test
            .mail
            .changing
            .move_to(&test.access, &uids, "Archive", None);
        let _ = tokio::time::timeout(std::time::Duration::from_micros(300), cancelled).await;
        test.mail.changing.finished().await;
        assert_eq!(test.contents("Archive").await.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_moves_of_the_same_messages_both_succeed() {
    with_mailbox(async |test| {
        let subjects: Vec<String> = (0..30).map(|n| format!("m{n}")).collect();
        let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
        let uids = test.append("INBOX", &subjects).await;
        for _ in 0..5 {
            let to = |folder| {
                test.mail
                    .changing
                    .move_to(&test.access, &uids, folder, None)
            };
            let (one, other) = tokio::join!(to("Archive"), to("Trash"));
            assert_eq!(one.unwrap().unwrap().len(), 30);
            assert_eq!(other.unwrap().unwrap().len(), 30);
            let archived = test.contents("Archive").await;
            let trashed = test.contents("Trash").await;
            assert_eq!(archived.len() + trashed.len(), 30);
            to("INBOX").await.unwrap().unwrap();
        }
        let back: Vec<MessageNumber> = test
            .contents("INBOX")
            .await
            .iter()
            .map(|(_, uid)| *uid)
            .collect();
        assert_eq!(back, uids);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_fails_if_the_server_is_unavailable() {
    with_mailbox(async |mut test| {
        let uids = test.append("INBOX", &["a"]).await;
        test.dovecot.stop();
        let result = test.mail.changing.delete(&test.access, &uids, None).await;
        assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
        test.dovecot.restart();
        assert_eq!(
            test.mail
                .changing
                .delete(&test.access, &uids, None)
                .await
                .unwrap(),
            uids
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_or_reported_as_moved_if_the_server_is_killed_during_a_move() {
    with_mailbox(async |mut test| {
        let subjects: Vec<String> = (0..100).map(|n| format!("m{n:03}")).collect();
        let names: Vec<&str> = subjects.iter().map(String::as_str).collect();
        let uids = test.append("INBOX", &names).await;
        for (micros, to) in [
            (0, "Archive"),
            (500, "Trash"),
            (1500, "Archive"),
            (4000, "Trash"),
        ] {
            let (mail, access, moving) =
                (Arc::clone(&test.mail), test.access.clone(), uids.clone());
            let moved =
                tokio::spawn(
                    async move { mail.changing.move_to(&access, &moving, to, None).await },
                );
            tokio::time::sleep(std::time::Duration::from_micros(micros)).await;
            test.dovecot.kill();
            let outcome = moved.await.unwrap();
            test.dovecot.restart();
            let there = test.contents(to).await;
            match outcome {
                Ok(found) => {
                    assert_eq!(found.unwrap().len(), 100);
                    assert_eq!(there.len(), 100);
                }
                Err(Error::Unknown(_) | Error::Unavailable(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
            // Every message can be read under its number.
            for (uid, subject) in uids.iter().zip(&subjects) {
                assert_eq!(test.subject(*uid).await.as_ref(), Some(subject));
            }
            // Dovecot ends a session in which it finds an index that needs repair: the index of
            // INBOX, of the other folder or of the storage. This happens at most once for each
            // index. After that, the change succeeds.
            let mut errors = 0;
            let done = loop {
                let done = test
                    .mail
                    .changing
                    .move_to(&test.access, &uids, "INBOX", None)
                    .await;
                if !matches!(done, Err(Error::Unknown(_))) || errors == 3 {
                    break done;
                }
                errors += 1;
            };
            assert_eq!(done.unwrap().unwrap().len(), 100);
        }
    })
    .await;
}
