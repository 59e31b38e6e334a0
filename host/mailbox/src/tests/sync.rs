//! Tests that the change log contains the changes of other clients, including those that were made
//! while the service was down.

use std::sync::Arc;

use latchmail_core::caller::Origin;
use latchmail_core::permissions::{Granted, GrantedFolder, Resource, Rights};

use super::dovecot::Dovecot;
use super::{TestMailbox, access, new_mail, short_message, with_dovecot, with_keys, with_mailbox};
use crate::changelog::{Change, ChangePage};
use crate::{Access, Error, Flag, Mail, Member, StoreMode};

impl TestMailbox {
    pub(super) async fn page(
        &self,
        since: Option<&str>,
        folder: Option<&str>,
        limit: u32,
    ) -> ChangePage {
        let page = self.mail.changelog.page(&self.access, since, folder, limit);
        page.await.unwrap().unwrap()
    }

    pub(super) async fn cursor(&self) -> String {
        let page = self.page(None, None, 100).await;
        assert!(page.changes.is_empty() && !page.more);
        page.cursor
    }

    /// Returns all changes since the cursor, as texts. Sets the cursor to the next one.
    async fn since(&self, cursor: &mut String) -> Vec<String> {
        let mut changes = Vec::new();
        loop {
            let page = self.page(Some(cursor), None, 100).await;
            changes.extend(page.changes.iter().map(text));
            *cursor = page.cursor;
            if !page.more {
                return changes;
            }
        }
    }

    /// Replaces the service by a new one, which has no connections, no caches, and a new key.
    fn restart(&mut self) {
        let directory = self.fresh.directory.clone();
        let mail = Mail::new(&self.dovecot.config(), directory, with_keys(&[2, 1]));
        self.mail = Arc::new(mail.unwrap());
    }
}

fn text(change: &Change) -> String {
    let flags = |flags: &[String]| format!("({})", flags.join(" "));
    match change {
        Change::Created {
            number,
            folder,
            flags: f,
        } => format!("created {number} {folder} {}", flags(f)),
        Change::Flags {
            number,
            folder,
            flags: f,
        } => format!("flags {number} {folder} {}", flags(f)),
        Change::Moved {
            number,
            folder,
            from,
            flags: f,
        } => format!("moved {number} {from} {folder} {}", flags(f)),
        Change::Deleted { number, folder } => format!("deleted {number} {folder}"),
        Change::FolderCreated { folder, .. } => format!("folderCreated {folder}"),
        Change::FolderRenamed { folder, from, .. } => format!("folderRenamed {from} {folder}"),
        Change::FolderDeleted { folder, .. } => format!("folderDeleted {folder}"),
    }
}

fn sorted(mut changes: Vec<String>) -> Vec<String> {
    changes.sort();
    changes
}

async fn changes_of_messages_are_reported(mut test: TestMailbox) {
    let uids = test.append("INBOX", &["a", "b", "c", "d", "e"]).await;
    let mut cursor = test.cursor().await;
    assert_eq!(test.since(&mut cursor).await, [""; 0]);
    // The other client makes its changes while the service is down.
    let mut client = test.dovecot.client("ada");
    client.ok("SELECT INBOX");
    client.ok("STORE 1 +FLAGS (\\Seen $Label1)");
    client.ok("MOVE 2 Archive");
    // Now 2 is the message c. The last message is e.
    client.ok("COPY 2 Trash");
    client.ok("STORE 4 +FLAGS (\\Deleted)");
    client.ok("EXPUNGE");
    client.append("INBOX", "(\\Flagged)", &short_message("f", "x"));
    test.restart();
    let changes = sorted(test.since(&mut cursor).await);
    let numbers = [uids[4].0 + 1, uids[4].0 + 2];
    assert_eq!(changes[0].split(' ').next(), Some("created"), "{changes:?}");
    let copied = numbers
        .iter()
        .find(|n| changes.contains(&format!("created {n} Trash ()")))
        .unwrap();
    let new = numbers.iter().find(|n| *n != copied).unwrap();
    let expected = sorted(vec![
        format!("created {copied} Trash ()"),
        format!("created {new} INBOX (\\Flagged)"),
        format!("deleted {} INBOX", uids[4]),
        format!("flags {} INBOX ($Label1 \\Seen)", uids[0]),
        format!("moved {} INBOX Archive ()", uids[1]),
    ]);
    assert_eq!(changes, expected);
    assert_eq!(test.since(&mut cursor).await, [""; 0]);
    // Changes that are undone are not reported.
    client.ok("STORE 1 -FLAGS (\\Seen)");
    test.mail.numbers.sync(&test.access).await.unwrap();
    client.ok("STORE 1 +FLAGS (\\Seen)");
    client.ok("MOVE 2 Drafts");
    client.append("INBOX", "()", &short_message("g", "x"));
    test.mail.numbers.sync(&test.access).await.unwrap();
    client.ok("SELECT Drafts");
    client.ok("MOVE 1 INBOX");
    client.ok("SELECT INBOX");
    client.ok("STORE 4 +FLAGS (\\Deleted)");
    client.ok("EXPUNGE");
    assert_eq!(test.since(&mut cursor).await, [""; 0]);
    // The service's own changes are reported too.
    let seen = vec![Flag::named("\\Seen").unwrap()];
    test.mail
        .changing
        .flag(&test.access, &uids[2..3], (seen, StoreMode::Add), None)
        .await
        .unwrap();
    test.mail
        .changing
        .move_to(&test.access, &[uids[3], uids[1]], "Trash", None)
        .await
        .unwrap();
    test.mail
        .changing
        .delete(&test.access, &uids[..1], None)
        .await
        .unwrap();
    let expected = sorted(vec![
        format!("deleted {} INBOX", uids[0]),
        format!("flags {} INBOX (\\Seen)", uids[2]),
        format!("moved {} Archive Trash ()", uids[1]),
        format!("moved {} INBOX Trash ()", uids[3]),
    ]);
    assert_eq!(sorted(test.since(&mut cursor).await), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_messages_are_reported_with_qresync() {
    with_mailbox(changes_of_messages_are_reported).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_messages_are_reported_without_qresync() {
    with_dovecot(
        Dovecot::start_without_qresync,
        changes_of_messages_are_reported,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_folders_are_reported() {
    with_mailbox(async |mut test| {
        let mut client = test.dovecot.client("ada");
        for folder in ["Work", "Work/Sub", "Old", "Gone"] {
            client.ok(&format!("CREATE {folder}"));
        }
        let work = test.append("Work/Sub", &["a"]).await[0];
        let old = test.append("Old", &["b", "c"]).await;
        test.append("Gone", &["d"]).await;
        let mut cursor = test.cursor().await;
        client.ok("RENAME Work Play");
        client.ok("SELECT Old");
        client.ok("MOVE 1 Play/Sub");
        client.ok("CLOSE");
        for folder in ["Old", "Gone"] {
            client.ok(&format!("DELETE {folder}"));
        }
        client.ok("CREATE Old");
        client.append("Old", "(\\Seen)", &short_message("e", "x"));
        test.restart();
        let changes = test.since(&mut cursor).await;
        let new = test.contents("Old").await[0].1;
        assert_eq!(
            sorted(changes[..2].to_vec()),
            ["folderRenamed Work Play", "folderRenamed Work/Sub Play/Sub"]
        );
        assert_eq!(
            changes[2..],
            [
                format!("moved {} Old Play/Sub ()", old[0]),
                "folderDeleted Old".into(),
                "folderCreated Old".into(),
                format!("created {new} Old (\\Seen)"),
                "folderDeleted Gone".into(),
            ]
        );
        assert_eq!(test.contents("Play/Sub").await[0].1, work);
        assert_eq!(test.since(&mut cursor).await, [""; 0]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_replaced_folder_are_created_with_their_numbers() {
    with_mailbox(async |mut test| {
        let mut client = test.dovecot.client("ada");
        client.ok("CREATE Work");
        let uids = test.append("Work", &["a", "b"]).await;
        let mut cursor = test.cursor().await;
        client.ok("CREATE Spare");
        client.ok("SELECT Work");
        client.ok("COPY 1:* Spare");
        client.ok("CLOSE");
        client.ok("DELETE Work");
        client.ok("RENAME Spare Work");
        test.restart();
        let expected = [
            "folderDeleted Work".to_owned(),
            "folderCreated Work".to_owned(),
            format!("created {} Work ()", uids[0]),
            format!("created {} Work ()", uids[1]),
        ];
        assert_eq!(test.since(&mut cursor).await, expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_a_folder_reports_only_this_folder() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.ok("CREATE Work");
        let uids = test.append("INBOX", &["a", "b"]).await;
        let start = test.page(None, Some("inbox"), 10).await.cursor;
        let work = test.page(None, Some("Work"), 10).await.cursor;
        client.ok("SELECT INBOX");
        client.ok("MOVE 1 Work");
        client.ok("STORE 1 +FLAGS (\\Seen)");
        let page = test.page(Some(&start), Some("INBOX"), 10).await;
        let changes: Vec<String> = page.changes.iter().map(text).collect();
        let (left, flagged) = (
            format!("deleted {} INBOX", uids[0]),
            format!("flags {} INBOX (\\Seen)", uids[1]),
        );
        assert_eq!(sorted(changes), sorted(vec![left.clone(), flagged.clone()]));
        // The same changes on two pages.
        let first = test.page(Some(&start), Some("INBOX"), 1).await;
        let second = test.page(Some(&first.cursor), Some("INBOX"), 1).await;
        assert!(first.more && !second.more && first.changes.len() == 1);
        let both: Vec<String> = first
            .changes
            .iter()
            .chain(&second.changes)
            .map(text)
            .collect();
        assert_eq!(sorted(both), sorted(vec![left, flagged]));
        assert_eq!(second.cursor, page.cursor);
        client.ok("CLOSE");
        client.ok("RENAME Work Play");
        let page = test.page(Some(&work), Some("Work"), 10).await;
        let changes: Vec<String> = page.changes.iter().map(text).collect();
        assert_eq!(
            changes,
            [
                "folderRenamed Work Play".to_owned(),
                format!("created {} Play ()", uids[0])
            ]
        );
        let work = page.cursor;
        // A client that does not know the new path continues with the earlier path.
        let page = test.page(Some(&work), Some("Work"), 10).await;
        assert_eq!((page.changes.len(), &page.cursor), (0, &work));
        client.ok("DELETE Play");
        let page = test.page(Some(&work), Some("Play"), 10).await;
        let changes: Vec<String> = page.changes.iter().map(text).collect();
        assert_eq!(changes, ["folderDeleted Play"]);
        let gone = test
            .mail
            .changelog
            .page(&test.access, Some(&page.cursor), Some("Play"), 10)
            .await;
        assert_eq!(gone.unwrap(), None);
        let unknown = test
            .mail
            .changelog
            .page(&test.access, None, Some("Play"), 10)
            .await;
        assert_eq!(unknown.unwrap(), None);
        for (cursor, folder) in [(&start, None), (&start, Some("Sent"))] {
            let expired = test
                .mail
                .changelog
                .page(&test.access, Some(cursor), folder, 10)
                .await;
            assert!(matches!(expired, Err(Error::CursorExpired)), "{expired:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_sees_only_the_changes_of_granted_folders() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        client.ok("CREATE Work");
        let uids = test.append("INBOX", &["a", "b"]).await;
        let folders = test.mail.listing.folders(&test.access).await.unwrap();
        let granted = |grant: &str, paths: &[&str]| {
            let granted = folders
                .iter()
                .filter(|(folder, _)| paths.contains(&folder.path.as_str()))
                .map(|(_, id)| Granted {
                    id: grant.to_owned(),
                    resource: Resource::Folder(GrantedFolder {
                        id: id.to_string(),
                        uid_validity: 0,
                    }),
                    rights: Rights::OF_FOLDER,
                });
            Access {
                member: Some(Member {
                    account: "bob".into(),
                    grants: Arc::new(granted.collect::<Vec<_>>().into()),
                    origin: Origin::default(),
                    permit: None,
                }),
                ..test.access.clone()
            }
        };
        let bob = granted("1", &["Work"]);
        let page = async |access: &Access, since: Option<&str>, folder| {
            test.mail.changelog.page(access, since, folder, 100).await
        };
        let start = page(&bob, None, None).await.unwrap().unwrap().cursor;
        client.ok("SELECT INBOX");
        client.ok("MOVE 1 Work");
        client.ok("STORE 1 +FLAGS (\\Seen)");
        client.ok("CREATE Secret");
        let entered = page(&bob, Some(&start), None).await.unwrap().unwrap();
        let changes: Vec<String> = entered.changes.iter().map(text).collect();
        assert_eq!(changes, [format!("created {} Work ()", uids[0])]);
        client.ok("SELECT Work");
        client.ok("MOVE 1 Trash");
        client.ok("CLOSE");
        client.ok("RENAME Work Play");
        let left = page(&bob, Some(&entered.cursor), None)
            .await
            .unwrap()
            .unwrap();
        let changes: Vec<String> = left.changes.iter().map(text).collect();
        let expected = [
            "folderRenamed Work Play".into(),
            format!("deleted {} Play", uids[0]),
        ];
        assert_eq!(changes, expected);
        // Neither the owner's cursor nor the cursor of other grants is valid.
        let owners = test.cursor().await;
        let other = granted("1", &["Work", "Trash"]);
        // Bob lost the folder and got it back with a new grant.
        let later = granted("2", &["Work"]);
        for (access, cursor) in [
            (&bob, &owners),
            (&test.access, &left.cursor),
            (&other, &left.cursor),
            (&later, &left.cursor),
        ] {
            let expired = page(access, Some(cursor), None).await;
            assert!(matches!(expired, Err(Error::CursorExpired)), "{expired:?}");
        }
        for hidden in ["INBOX", "Nowhere"] {
            assert_eq!(page(&bob, None, Some(hidden)).await.unwrap(), None);
        }
        let denied = page(&granted("1", &[]), None, None).await;
        assert!(matches!(denied, Err(Error::Denied(_))), "{denied:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_with_a_long_path_does_not_block_the_mailbox() {
    with_mailbox(async |test| {
        let mut cursor = test.cursor().await;
        let mut client = test.dovecot.client("ada");
        let nested = |name: &str, levels: usize| vec![name; levels].join("/");
        // 1,205 bytes, and 1,023 bytes in UTF-8.
        let usable = nested(&"x".repeat(200), 6);
        let japanese = nested(&"受".repeat(68), 5);
        let too_long = nested(&"y".repeat(200), 12);
        for path in [&usable, &japanese, &too_long] {
            client.ok(&format!(
                "CREATE \"{}\"",
                latchmail_imap::utf7::encode(path)
            ));
        }
        let uids = test.append(&usable, &["a"]).await;
        let mut changes = test.since(&mut cursor).await;
        // The server also lists the parents of the folders.
        changes.retain(|change| !change.ends_with(&"y".repeat(200)));
        for expected in [
            format!("folderCreated {usable}"),
            format!("folderCreated {japanese}"),
            format!("created {} {usable} ()", uids[0]),
        ] {
            assert!(changes.contains(&expected), "{expected}");
        }
        client.ok(&format!("RENAME \"{usable}\" Short"));
        client.ok(&format!("RENAME \"{too_long}\" Long"));
        let changes = test.since(&mut cursor).await;
        assert!(changes.contains(&format!("folderRenamed {usable} Short")));
        assert!(changes.contains(&"folderCreated Long".to_owned()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_or_foreign_cursor_is_expired() {
    with_mailbox(async |test| {
        test.fresh
            .directory
            .with("bob", "bob@example.org", &[])
            .await;
        let cursor = test.cursor().await;
        let bob = access("bob", "second");
        let foreign = test
            .mail
            .changelog
            .page(&bob, Some(&cursor), None, 10)
            .await;
        assert!(matches!(foreign, Err(Error::CursorExpired)), "{foreign:?}");
        for invalid in ["", "AQ", "x y"] {
            let expired = test
                .mail
                .changelog
                .page(&test.access, Some(invalid), None, 10)
                .await;
            assert!(matches!(expired, Err(Error::CursorExpired)), "{expired:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_syncs_of_several_services_report_each_change_once() {
    with_mailbox(async |test| {
        let subjects: Vec<String> = (0..60).map(|n| format!("m{n}")).collect();
        let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
        test.append("INBOX", &subjects).await;
        let mut cursor = test.cursor().await;
        let mut client = test.dovecot.client("ada");
        client.ok("SELECT INBOX");
        client.ok("STORE 1:20 +FLAGS (\\Seen)");
        client.ok("MOVE 21:40 Archive");
        client.ok("STORE 21:40 +FLAGS (\\Deleted)");
        client.ok("EXPUNGE");
        let config = test.dovecot.config();
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let mail = new_mail(&config, &test.fresh.directory);
                let access = test.access.clone();
                tokio::spawn(async move {
                    let (first, second) =
                        tokio::join!(mail.numbers.sync(&access), mail.numbers.sync(&access));
                    first.unwrap().max(second.unwrap())
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(test.since(&mut cursor).await.len(), 60);
        let events = "SELECT COUNT(*) FROM mailbox_changes WHERE uid > 0";
        assert_eq!(test.fresh.number(events).await, 60);
    })
    .await;
}
