//! Tests of Trash, copies, replaced flags and changes that depend on a version, checked with
//! another client.

use latchmail_core::message_number::MessageNumber;

use super::{TestMailbox, with_mailbox};
use crate::{Error, Flag, StoreMode};

impl TestMailbox {
    /// Returns the subjects of the messages in a folder, oldest first.
    pub(super) async fn subjects(&self, folder: &str) -> Vec<String> {
        let contents = self.contents(folder).await;
        contents.into_iter().map(|(subject, _)| subject).collect()
    }

    /// Returns the current version of a message.
    async fn version(&self, number: MessageNumber) -> String {
        let version = self.mail.reading.version(&self.access, number).await;
        version.unwrap().unwrap().state
    }
}

fn flags(names: &[&str]) -> Vec<Flag> {
    let flags = names.iter().map(|name| Flag::named(name).unwrap());
    flags.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_restored_to_the_folder_that_they_came_from() {
    with_mailbox(async |test| {
        let changing = &test.mail.changing;
        let mut client = test.dovecot.client("ada");
        for folder in ["Work", "Gone"] {
            client.ok(&format!("CREATE {folder}"));
        }
        let work = test.append("Work", &["a", "b"]).await;
        let gone = test.append("Gone", &["c"]).await;
        let inbox = test.append("INBOX", &["d"]).await;
        let trashed = [work[0], gone[0], MessageNumber(99)];
        let found = changing.trash(&test.access, &trashed, None).await.unwrap();
        assert_eq!(found, [work[0], gone[0]]);
        let mut subjects = test.subjects("Trash").await;
        subjects.sort();
        assert_eq!(subjects, ["a", "c"]);
        // Another client moves the other message to Trash, and renames and deletes the folders.
        client.ok("SELECT Work");
        client.ok("MOVE 1 Trash");
        client.ok("EXAMINE INBOX");
        client.ok("RENAME Work Play");
        client.ok("DELETE Gone");
        let refused = changing.restore(&test.access, &inbox).await;
        assert!(matches!(refused, Err(Error::NotInTrash)), "{refused:?}");
        let all = [gone[0], work[1], work[0], inbox[0], MessageNumber(99)];
        let restored = changing.restore(&test.access, &all).await.unwrap();
        assert_eq!(restored, [work[0], work[1], gone[0]]);
        let mut restored = test.subjects("Play").await;
        restored.sort();
        assert_eq!(restored, ["a", "b"]);
        assert_eq!(test.subjects("INBOX").await, ["d", "c"]);
        assert!(test.subjects("Trash").await.is_empty());
        let missing = changing.restore(&test.access, &[MessageNumber(99)]).await;
        assert!(missing.unwrap().is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_new_messages_with_the_flags_of_the_originals() {
    with_mailbox(async |test| {
        let changing = &test.mail.changing;
        let uids = test.append("INBOX", &["a", "b"]).await;
        let seen = (flags(&["\\Seen", "$Label"]), StoreMode::Add);
        changing
            .flag(&test.access, &uids[..1], seen, None)
            .await
            .unwrap();
        let originals = [uids[1], uids[0], MessageNumber(99)];
        for folder in ["Archive", "INBOX"] {
            let copies = changing.copy_to(&test.access, &originals, folder).await;
            let mut copies = copies.unwrap().unwrap();
            copies.sort_unstable_by_key(|copied| copied.original);
            let found: Vec<_> = copies.iter().map(|copied| copied.original).collect();
            assert_eq!(found, uids);
            let contents = test.contents(folder).await;
            for (copied, subject) in copies.iter().zip(["a", "b"]) {
                assert!(contents.contains(&(subject.to_owned(), copied.copy)));
                assert!(!uids.contains(&copied.copy));
            }
            let copy = test.detail(copies[0].copy).await;
            assert_eq!(copy.summary.flags.len(), 2, "{:?}", copy.summary.flags);
        }
        assert_eq!(test.subjects("INBOX").await.len(), 4);
        let nowhere = changing.copy_to(&test.access, &uids, "Nowhere").await;
        assert_eq!(nowhere.unwrap(), None);
        let nothing = changing.copy_to(&test.access, &[MessageNumber(99)], "Archive");
        assert_eq!(nothing.await.unwrap().unwrap(), []);
        // The original and its copies stay different messages if the original is deleted.
        let deleted = changing.delete(&test.access, &uids[..1], None).await;
        assert_eq!(deleted.unwrap(), uids[..1]);
        assert_eq!(test.subjects("Archive").await, ["a", "b"]);
        assert_eq!(test.subject(uids[0]).await, None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_flags_are_exactly_the_new_flags_and_a_foreign_deleted_flag() {
    with_mailbox(async |test| {
        let uids = test.append("INBOX", &["a", "b"]).await;
        let mut client = test.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("STORE 1:2 +FLAGS (\\Flagged old)");
        client.ok("STORE 2 +FLAGS (\\Deleted)");
        let replace = async |names: &[&str]| {
            let flags = (flags(names), StoreMode::Replace);
            let changing = &test.mail.changing;
            let replaced = changing.flag(&test.access, &uids, flags, None).await;
            assert_eq!(replaced.unwrap(), uids);
            let mut found = Vec::new();
            for uid in &uids {
                let mut flags = test.detail(*uid).await.summary.flags;
                flags.sort();
                found.push(flags.join(" "));
            }
            found
        };
        assert_eq!(
            replace(&["\\Seen", "new"]).await,
            ["\\Seen new", "\\Deleted \\Seen new"]
        );
        assert_eq!(replace(&[]).await, ["", "\\Deleted"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_depends_on_an_old_version_changes_nothing() {
    with_mailbox(async |test| {
        let changing = &test.mail.changing;
        let uids = test.append("INBOX", &["a"]).await;
        let old = test.version(uids[0]).await;
        assert_eq!(test.detail(uids[0]).await.version, old);
        let mut client = test.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("STORE 1 +FLAGS (\\Flagged)");
        let refused = async |version: &str| {
            let (access, version) = (&test.access, || Some(version.to_owned()));
            for mode in [StoreMode::Add, StoreMode::Remove, StoreMode::Replace] {
                let flags = (flags(&["\\Flagged", "x"]), mode);
                let changed = changing.flag(access, &uids, flags, version()).await;
                assert!(matches!(changed, Err(Error::MessageChanged)), "{changed:?}");
            }
            for changed in [
                changing.delete(access, &uids, version()).await,
                changing.trash(access, &uids, version()).await,
                changing
                    .move_to(access, &uids, "Archive", version())
                    .await
                    .map(Option::unwrap_or_default),
            ] {
                assert!(matches!(changed, Err(Error::MessageChanged)), "{changed:?}");
            }
        };
        refused(&old).await;
        assert_eq!(test.detail(uids[0]).await.summary.flags, ["\\Flagged"]);
        // Another client moves the message.
        let current = test.version(uids[0]).await;
        client.ok("MOVE 1 Archive");
        refused(&current).await;
        assert_eq!(test.subjects("Archive").await, ["a"]);
        // The current version permits each change, and the version changes with it.
        let mut version = test.version(uids[0]).await;
        for mode in [StoreMode::Add, StoreMode::Replace, StoreMode::Remove] {
            let flags = (
                flags(&[if mode == StoreMode::Add { "x" } else { "y" }]),
                mode,
            );
            let changed = changing.flag(&test.access, &uids, flags, Some(version.clone()));
            assert_eq!(changed.await.unwrap(), uids);
            let next = test.version(uids[0]).await;
            assert_ne!(next, version);
            version = next;
        }
        let trashed = changing.trash(&test.access, &uids, Some(version)).await;
        assert_eq!(trashed.unwrap(), uids);
        let version = test.version(uids[0]).await;
        let deleted = changing.delete(&test.access, &uids, Some(version.clone()));
        assert_eq!(deleted.await.unwrap(), uids);
        let missing = changing.delete(&test.access, &uids, Some(version)).await;
        assert!(missing.unwrap().is_empty());
    })
    .await;
}
