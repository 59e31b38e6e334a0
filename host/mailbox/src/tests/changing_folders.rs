//! Tests of creating, renaming and deleting folders, checked with another client.

use std::sync::Arc;

use latchmail_core::message_number::MessageNumber;

use super::{TestMailbox, with_mailbox};
use crate::{Disposal, Error, Flag, Folder, FolderConflict, StoreMode};

impl TestMailbox {
    async fn create_folder(&self, path: &str) -> Result<(Folder, Arc<str>), Error> {
        self.mail.changing.create_folder(&self.access, path).await
    }

    async fn rename_folder(
        &self,
        folder: &str,
        path: &str,
    ) -> Result<Option<(Folder, Arc<str>)>, Error> {
        let changing = &self.mail.changing;
        changing.rename_folder(&self.access, folder, path).await
    }

    async fn delete_folder(
        &self,
        folder: &str,
        messages: Option<Disposal>,
    ) -> Result<Option<()>, Error> {
        let changing = &self.mail.changing;
        changing.delete_folder(&self.access, folder, messages).await
    }

    /// Returns the paths of the folders without a role, in the order of the list.
    async fn folder_paths(&self) -> Vec<String> {
        let folders = self.mail.listing.folders(&self.access).await.unwrap();
        let folders = folders.into_iter().map(|(folder, _)| folder);
        folders
            .filter(|folder| folder.role.is_none())
            .map(|folder| folder.path)
            .collect()
    }
}

#[track_caller]
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers pass the result of a call"
)]
fn conflict<T: std::fmt::Debug>(result: Result<T, Error>, expected: FolderConflict) {
    assert!(
        matches!(&result, Err(Error::Folder(conflict)) if *conflict == expected),
        "{result:?} instead of {expected:?}"
    );
}

/// Returns the names of the subscribed folders that are not part of a new mailbox.
fn subscribed(client: &mut super::dovecot::Client) -> Vec<String> {
    let replies = client.ok("LSUB \"\" \"*\"");
    let names = replies.lines().filter(|line| line.starts_with("* LSUB ()"));
    let mut names: Vec<String> = names
        .filter_map(|line| Some(line.split_once("\"/\" ")?.1.trim().to_owned()))
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_created_with_its_parents_and_subscribed() {
    with_mailbox(async |test| {
        let (folder, id) = test.create_folder("Work/Entwürfe/2026").await.unwrap();
        assert_eq!(folder.path, "Work/Entwürfe/2026");
        assert_eq!((folder.name.as_str(), folder.messages), ("2026", 0));
        let paths = ["Work", "Work/Entwürfe", "Work/Entwürfe/2026"];
        assert_eq!(test.folder_paths().await, paths);
        let mut client = test.dovecot.client("ada");
        let names = ["Work", "Work/Entw&APw-rfe", "Work/Entw&APw-rfe/2026"];
        assert_eq!(subscribed(&mut client), names);
        let listed = test.mail.listing.folders(&test.access).await.unwrap();
        let listed = listed.into_iter().find(|(f, _)| f.path == folder.path);
        assert_eq!(listed.unwrap().1, id);
        // Another client has created only a subfolder, so the parent cannot be opened.
        client.ok("CREATE Play/a");
        test.create_folder("Play").await.unwrap();
        conflict(test.create_folder("Play").await, FolderConflict::Exists);
        conflict(test.create_folder("inbox").await, FolderConflict::Exists);
        test.create_folder("Inbox/sub").await.unwrap();
        client.ok("EXAMINE INBOX/sub");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_no_folder_can_have_is_refused_and_creates_nothing() {
    with_mailbox(async |test| {
        let long = "x".repeat(300);
        for path in [
            "", "/", "a//b", "/a", "a/", "a/../b", ".", "~a", "a\nb", "a\u{1}", &long,
        ] {
            let refused = test.create_folder(path).await;
            assert!(matches!(refused, Err(Error::InvalidFolderPath)), "{path:?}");
        }
        test.create_folder("There").await.unwrap();
        for path in ["a//b", "There/below", &long] {
            let refused = test.rename_folder("There", path).await;
            assert!(matches!(refused, Err(Error::InvalidFolderPath)), "{path:?}");
        }
        for path in [
            "100%",
            "all*",
            "R&D",
            r#"say "hi" \ back"#,
            "日本語🐋",
            "a.b",
            "{5}",
        ] {
            let (folder, _) = test.create_folder(path).await.unwrap();
            assert_eq!(folder.path, path);
        }
        assert_eq!(test.folder_paths().await.len(), 8);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_folder_keeps_ids_numbers_and_subscriptions() {
    with_mailbox(async |test| {
        let (_, id) = test.create_folder("Work").await.unwrap();
        let (_, sub_id) = test.create_folder("Work/Reports").await.unwrap();
        test.create_folder("Workshop").await.unwrap();
        let uids = test.append("Work", &["a", "b"]).await;
        let sub = test.append("Work/Reports", &["c"]).await;
        let mut client = test.dovecot.client("ada");
        client.ok("UNSUBSCRIBE Work/Reports");
        let renamed = test.rename_folder("Work", "Play/Büro").await.unwrap();
        let (folder, same) = renamed.unwrap();
        assert_eq!((folder.path.as_str(), folder.messages), ("Play/Büro", 2));
        assert_eq!(same, id);
        let paths = ["Play", "Play/Büro", "Play/Büro/Reports", "Workshop"];
        assert_eq!(test.folder_paths().await, paths);
        let names = ["Play", "Play/B&APw-ro", "Workshop"];
        assert_eq!(subscribed(&mut client), names);
        let contents = test.contents("Play/Büro").await;
        assert_eq!(contents, [("a".into(), uids[0]), ("b".into(), uids[1])]);
        assert_eq!(test.contents("Play/Büro/Reports").await[0].1, sub[0]);
        let folders = test.mail.listing.folders(&test.access).await.unwrap();
        let found = folders.iter().find(|(f, _)| f.path == "Play/Büro/Reports");
        assert_eq!(found.unwrap().1, sub_id);
        assert_eq!(test.subject(uids[0]).await.unwrap(), "a");
        // The old name is free, and a new folder has another id.
        let (_, other) = test.create_folder("Work").await.unwrap();
        assert_ne!(other, id);
        assert!(test.rename_folder("Nowhere", "x").await.unwrap().is_none());
        conflict(
            test.rename_folder("Work", "Workshop").await,
            FolderConflict::Exists,
        );
        let unchanged = test.rename_folder("Work", "Work").await.unwrap().unwrap();
        assert_eq!(unchanged.1, other);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_without_a_folder_can_be_replaced() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        // The server keeps the name `t` without a folder.
        client.ok("CREATE t/u");
        client.ok("DELETE t/u");
        test.create_folder("s").await.unwrap();
        let renamed = test.rename_folder("s", "t").await.unwrap().unwrap();
        assert_eq!(renamed.0.path, "t");
        client.ok("CREATE p/q/r");
        client.ok("CREATE p");
        client.ok("DELETE p/q/r");
        test.delete_folder("p", None).await.unwrap().unwrap();
        assert_eq!(test.folder_paths().await, ["t"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_and_folders_with_a_role_are_not_changed() {
    with_mailbox(async |test| {
        for folder in ["INBOX", "inbox", "Sent", "Trash"] {
            conflict(
                test.rename_folder(folder, "Other").await,
                FolderConflict::HasRole,
            );
            let all = Some(Disposal::Delete);
            conflict(
                test.delete_folder(folder, all).await,
                FolderConflict::HasRole,
            );
        }
        assert!(test.folder_paths().await.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_deleted_empty_or_with_its_messages() {
    with_mailbox(async |test| {
        let mut client = test.dovecot.client("ada");
        test.create_folder("a/b").await.unwrap();
        conflict(
            test.delete_folder("a", None).await,
            FolderConflict::NotEmpty,
        );
        test.delete_folder("a/b", None).await.unwrap().unwrap();
        let kept = test.append("a", &["x", "y"]).await;
        client.append("a", "()", &super::short_message("z", "z"));
        conflict(
            test.delete_folder("a", None).await,
            FolderConflict::NotEmpty,
        );
        let trash = Some(Disposal::Trash);
        test.delete_folder("a", trash).await.unwrap().unwrap();
        let contents = test.contents("Trash").await;
        assert_eq!(contents[0], ("x".into(), kept[0]));
        assert_eq!(contents[1], ("y".into(), kept[1]));
        assert_eq!(contents[2].0, "z");
        assert!(test.delete_folder("a", None).await.unwrap().is_none());
        assert!(subscribed(&mut client).is_empty());
        test.create_folder("a").await.unwrap();
        let gone = test.append("a", &["gone"]).await;
        let all = Some(Disposal::Delete);
        test.delete_folder("a", all).await.unwrap().unwrap();
        assert!(test.subject(gone[0]).await.is_none());
        assert_eq!(test.contents("Trash").await.len(), 3);
        client.ok("DELETE Trash");
        client.ok("CREATE b");
        let none = test.delete_folder("b", trash).await;
        // The mail server creates Trash again at the next log-in, so both results are right.
        if none.is_err() {
            conflict(none, FolderConflict::NoTrash);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_message_during_a_rename_never_affects_another_message() {
    with_mailbox(async |test| {
        test.create_folder("Work").await.unwrap();
        let uids = test.append("Work", &["a", "b", "c"]).await;
        let test = Arc::new(test);
        let renames = {
            let test = Arc::clone(&test);
            tokio::spawn(async move {
                for round in 0..10 {
                    let to = format!("Work{round}");
                    test.rename_folder("Work", &to).await.unwrap().unwrap();
                    test.create_folder("Work").await.unwrap();
                    test.delete_folder("Work", None).await.unwrap().unwrap();
                    test.rename_folder(&to, "Work").await.unwrap().unwrap();
                }
            })
        };
        // Another host has its own locks.
        let settings = super::with_keys(&[1]);
        let directory = test.fresh.directory.clone();
        let other = crate::Mail::new(&test.dovecot.config(), directory, settings).unwrap();
        let flag = |name: &str| vec![Flag::named(name).unwrap()];
        while !renames.is_finished() {
            let changed = other.changing.flag(
                &test.access,
                &uids[1..2],
                (flag("seen"), StoreMode::Add),
                None,
            );
            match changed.await {
                Ok(changed) => assert!(changed.is_empty() || changed == uids[1..2]),
                Err(
                    Error::Unavailable(_)
                    | Error::Unknown(_)
                    | Error::Rejected(_)
                    | Error::Internal(_),
                ) => {}
                Err(error) => panic!("{error}"),
            }
        }
        renames.await.unwrap();
        other
            .changing
            .flag(
                &test.access,
                &uids[1..2],
                (flag("seen"), StoreMode::Add),
                None,
            )
            .await
            .unwrap();
        let listing = test.listing("Work", 0, 10).await;
        let flagged: Vec<MessageNumber> = listing
            .messages
            .iter()
            .filter(|message| message.flags.iter().any(|flag| flag == "seen"))
            .map(|message| message.number)
            .collect();
        assert_eq!(flagged, uids[1..2]);
        let numbers: Vec<_> = listing.messages.iter().rev().map(|m| m.number).collect();
        assert_eq!(numbers, uids);
    })
    .await;
}
