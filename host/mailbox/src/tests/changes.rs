//! Tests of flagging, moving and deleting messages, checked with another client.

use std::sync::Arc;

use super::dovecot::Client;
use super::{World, in_a_world, note};
use crate::{Error, Flag};

impl World {
    /// Appends messages with these subjects to a folder. Returns their numbers in the same order.
    pub(super) async fn with(&self, folder: &str, subjects: &[&str]) -> Vec<u64> {
        let mut client = self.dovecot.client("ada");
        for subject in subjects {
            client.append(folder, "()", &note(subject, "x"));
        }
        let listing = self
            .listing(folder, 0, u32::try_from(subjects.len()).unwrap())
            .await;
        listing.messages.iter().rev().map(|m| m.uid).collect()
    }

    /// Returns the subjects and numbers in a folder, oldest first.
    pub(super) async fn shown(&self, folder: &str) -> Vec<(String, u64)> {
        let listing = self.listing(folder, 0, 100).await;
        let shown = |m: crate::Summary| (m.subject, m.uid);
        listing.messages.into_iter().rev().map(shown).collect()
    }

    /// Adds a flag to messages. Returns the numbers of those that exist, in ascending order.
    async fn flagged(&self, flag: &str, uids: &[u64]) -> Vec<u64> {
        let flags = flags(&[flag]);
        let found = self.mail.flag(&self.access, uids, flags, true).await;
        let mut found = found.unwrap();
        found.sort_unstable();
        found
    }

    pub(super) async fn subject(&self, uid: u64) -> Option<String> {
        let detail = self.mail.message(&self.access, uid).await.unwrap();
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
async fn flags_are_added_and_taken_away_wherever_the_messages_are() {
    in_a_world(async |world| {
        let inbox = world.with("INBOX", &["a", "b", "c"]).await;
        let sent = world.with("Sent", &["d"]).await;
        let both = [inbox[0], inbox[2], sent[0], 999];
        let add = flags(&["\\Seen", "$Important"]);
        let mut found = world
            .mail
            .flag(&world.access, &both, add, true)
            .await
            .unwrap();
        found.sort_unstable();
        assert_eq!(found, [inbox[0], inbox[2], sent[0]]);
        let mut client = world.dovecot.client("ada");
        client.ok("EXAMINE INBOX");
        let told = client.ok("FETCH 1:* (FLAGS)");
        let flagged = told
            .lines()
            .filter(|l| l.contains("\\Seen") && l.contains("$Important"));
        assert_eq!(flagged.count(), 2);
        let take = flags(&["\\seen"]);
        world
            .mail
            .flag(&world.access, &inbox, take, false)
            .await
            .unwrap();
        assert!(!client.ok("FETCH 1:* (FLAGS)").contains("\\Seen"));
        client.ok("EXAMINE Sent");
        assert!(client.ok("FETCH 1 (FLAGS)").contains("\\Seen"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_reach_their_messages_whatever_others_did_while_the_folder_stayed_open() {
    in_a_world(async |world| {
        let uids = world.with("INBOX", &["a", "b", "c", "d"]).await;
        let [a, _, c, d] = uids[..] else { panic!() };
        assert_eq!(world.flagged("\\Seen", &uids).await, uids);
        let mut client = world.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("MOVE 1 Archive");
        client.ok("STORE 1 +FLAGS (\\Deleted)");
        client.ok("EXPUNGE");
        assert_eq!(world.flagged("\\Flagged", &uids).await, [a, c, d]);
        assert_eq!(found(&mut client, "INBOX", "FLAGGED"), 2);
        assert_eq!(found(&mut client, "Archive", "FLAGGED"), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_was_made_anew_under_a_name_is_not_touched_by_what_is_done_in_the_one_before()
{
    in_a_world(async |world| {
        let mut client = world.dovecot.client("ada");
        client.ok("CREATE Work");
        let uids = world.with("Work", &["a", "b"]).await;
        assert_eq!(world.flagged("\\Seen", &uids).await, uids);
        client.ok("RENAME Work Play");
        client.ok("CREATE Work");
        for subject in ["c", "d", "e"] {
            client.append("Work", "()", &note(subject, "x"));
        }
        let made = client.ok("STATUS Work (MESSAGES UIDNEXT UIDVALIDITY)");
        assert_eq!(world.flagged("\\Flagged", &uids).await, uids);
        assert_eq!(found(&mut client, "Play", "FLAGGED"), 2);
        client.ok("EXAMINE INBOX");
        client.ok("DELETE Play");
        assert!(world.flagged("\\Answered", &uids).await.is_empty());
        for flag in ["FLAGGED", "ANSWERED"] {
            assert_eq!(found(&mut client, "Work", flag), 0);
        }
        client.ok("EXAMINE INBOX");
        let now = client.ok("STATUS Work (MESSAGES UIDNEXT UIDVALIDITY)");
        assert_eq!(now.lines().next(), made.lines().next());
    })
    .await;
}

/// Returns how many messages of a folder a search finds.
fn found(client: &mut Client, folder: &str, what: &str) -> usize {
    client.ok(&format!("EXAMINE {folder}"));
    let told = client.ok(&format!("SEARCH {what}"));
    let found = told.lines().find_map(|line| line.strip_prefix("* SEARCH"));
    found.unwrap().split_whitespace().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_messages_keep_their_numbers_and_are_read_where_they_are() {
    in_a_world(async |world| {
        let uids = world.with("INBOX", &["a", "b", "c"]).await;
        let moved = world
            .mail
            .move_to(&world.access, &[uids[0], uids[2], 77], "Archive")
            .await;
        assert_eq!(moved.unwrap().unwrap(), [uids[0], uids[2]]);
        assert_eq!(world.shown("INBOX").await, [("b".into(), uids[1])]);
        let archived = [("a".into(), uids[0]), ("c".into(), uids[2])];
        assert_eq!(world.shown("Archive").await, archived);
        assert_eq!(world.subject(uids[0]).await.as_deref(), Some("a"));
        // Moving messages to the folder they are in changes nothing.
        let again = world
            .mail
            .move_to(&world.access, &[uids[0]], "Archive")
            .await;
        assert_eq!(again.unwrap().unwrap(), [uids[0]]);
        assert_eq!(world.shown("Archive").await, archived);
        for nowhere in ["Nope", "Sent\r\n", "", "\n"] {
            let none = world
                .mail
                .move_to(&world.access, &[uids[1]], nowhere)
                .await
                .unwrap();
            assert_eq!(none, None, "{nowhere:?}");
        }
        world.dovecot.client("ada").ok("CREATE &ANw-bung/Ordner");
        let nested = world
            .mail
            .move_to(&world.access, &uids, "Übung/Ordner")
            .await
            .unwrap();
        assert_eq!(nested.unwrap().len(), 3);
        let back = world
            .mail
            .move_to(&world.access, &uids, "inbox")
            .await
            .unwrap();
        assert_eq!(back.unwrap().len(), 3);
        assert_eq!(world.shown("INBOX").await.len(), 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_messages_are_gone_and_no_other_is() {
    in_a_world(async |world| {
        let uids = world.with("INBOX", &["a", "b", "c"]).await;
        let mut client = world.dovecot.client("ada");
        client.ok("SELECT INBOX");
        // A message that another client has marked as deleted must not be removed.
        client.ok("STORE 2 +FLAGS (\\Deleted)");
        let gone = world
            .mail
            .delete(&world.access, &[uids[2], uids[2]])
            .await
            .unwrap();
        assert_eq!(gone, [uids[2]]);
        let left = [("a".into(), uids[0]), ("b".into(), uids[1])];
        assert_eq!(world.shown("INBOX").await, left);
        assert_eq!(world.subject(uids[2]).await, None);
        let again = world.mail.delete(&world.access, &[uids[2]]).await.unwrap();
        assert!(again.is_empty());
        // The number is not assigned again.
        assert!(world.with("INBOX", &["d"]).await[0] > uids[2]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_begun_runs_to_its_end_though_nobody_waits() {
    in_a_world(async |world| {
        let uids = world.with("INBOX", &["a", "b"]).await;
        let abandoned = world.mail.move_to(&world.access, &uids, "Archive");
        let _ = tokio::time::timeout(std::time::Duration::from_micros(300), abandoned).await;
        world.mail.finished().await;
        assert_eq!(world.shown("Archive").await.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_move_the_same_messages_at_once_have_one_answer_each() {
    in_a_world(async |world| {
        let subjects: Vec<String> = (0..30).map(|n| format!("m{n}")).collect();
        let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
        let uids = world.with("INBOX", &subjects).await;
        for _ in 0..5 {
            let to = |folder| world.mail.move_to(&world.access, &uids, folder);
            let (one, other) = tokio::join!(to("Archive"), to("Trash"));
            assert_eq!(one.unwrap().unwrap().len(), 30);
            assert_eq!(other.unwrap().unwrap().len(), 30);
            let archived = world.shown("Archive").await;
            let trashed = world.shown("Trash").await;
            assert_eq!(archived.len() + trashed.len(), 30);
            to("INBOX").await.unwrap().unwrap();
        }
        let back: Vec<u64> = world
            .shown("INBOX")
            .await
            .iter()
            .map(|(_, uid)| *uid)
            .collect();
        assert_eq!(back, uids);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_changes_nothing_and_says_so() {
    in_a_world(async |mut world| {
        let uids = world.with("INBOX", &["a"]).await;
        world.dovecot.stop();
        let refused = world.mail.delete(&world.access, &uids).await;
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
        world.dovecot.start_again();
        assert_eq!(world.mail.delete(&world.access, &uids).await.unwrap(), uids);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_a_bulk_move_loses_nothing_and_nothing_is_told_as_done_that_is_not() {
    in_a_world(async |mut world| {
        let subjects: Vec<String> = (0..100).map(|n| format!("m{n:03}")).collect();
        let names: Vec<&str> = subjects.iter().map(String::as_str).collect();
        let uids = world.with("INBOX", &names).await;
        for (micros, to) in [
            (0, "Archive"),
            (500, "Trash"),
            (1500, "Archive"),
            (4000, "Trash"),
        ] {
            let (mail, access, moving) =
                (Arc::clone(&world.mail), world.access.clone(), uids.clone());
            let moved = tokio::spawn(async move { mail.move_to(&access, &moving, to).await });
            tokio::time::sleep(std::time::Duration::from_micros(micros)).await;
            world.dovecot.kill();
            let outcome = moved.await.unwrap();
            world.dovecot.start_again();
            let there = world.shown(to).await;
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
                assert_eq!(world.subject(*uid).await.as_ref(), Some(subject));
            }
            // Dovecot ends a session in which it finds an index that needs repair: that of INBOX, of the other folder or of the storage. Each is reported once.
            // After that, the change succeeds.
            let mut told = 0;
            let done = loop {
                let done = world.mail.move_to(&world.access, &uids, "INBOX").await;
                if !matches!(done, Err(Error::Unknown(_))) || told == 3 {
                    break done;
                }
                told += 1;
            };
            assert_eq!(done.unwrap().unwrap().len(), 100);
        }
    })
    .await;
}
