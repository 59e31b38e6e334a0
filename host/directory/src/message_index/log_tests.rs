use std::sync::Arc;

use latchmail_core::clock::Clock;

use super::*;
use crate::testing::{Fresh, MONTH, NOW, both, execute};

const ACCOUNT: &str = "ada";

fn listed<'a>(path: &'a str, object_id: &'a str) -> ListedFolder<'a> {
    ListedFolder {
        path,
        uid_validity: 1,
        uid_next: 1,
        object_id: Some(object_id),
    }
}

fn synced(folder: &IndexedFolder, highest_modseq: Option<u64>) -> SyncedFolder<'_> {
    SyncedFolder {
        id: &folder.id,
        uid_validity: folder.uid_validity(),
        highest_modseq,
    }
}

/// Adds messages with these IMAP UIDs and flags to a folder. Returns their numbers.
async fn add(
    message_index: &MessageIndex,
    folder: &IndexedFolder,
    messages: &[(u32, &str)],
) -> Vec<MessageNumber> {
    let identity = |imap_uid: u32| {
        let mut identity = [0; 16];
        identity[..4].copy_from_slice(&imap_uid.to_be_bytes());
        (Uid(imap_uid), identity)
    };
    let new: Vec<_> = messages
        .iter()
        .map(|(imap_uid, _)| identity(*imap_uid))
        .collect();
    let numbers = message_index
        .assign_numbers(ACCOUNT, &folder.path, 1, &new, &[])
        .await;
    let numbers = numbers.unwrap().unwrap();
    flag(message_index, folder, messages).await;
    messages
        .iter()
        .map(|(imap_uid, _)| numbers[&Uid(*imap_uid)])
        .collect()
}

async fn flag(message_index: &MessageIndex, folder: &IndexedFolder, messages: &[(u32, &str)]) {
    let flags: Vec<(Uid, Arc<str>)> = messages
        .iter()
        .map(|(imap_uid, flags)| (Uid(*imap_uid), Arc::from(*flags)))
        .collect();
    let at = synced(folder, Some(1));
    assert!(message_index.set_flags(ACCOUNT, &at, &flags).await.unwrap());
}

/// Creates a mailbox with the folders `a` and `b`, and with a log.
async fn with_log(fresh: &Fresh) -> Vec<IndexedFolder> {
    fresh.directory.with(ACCOUNT, "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    let folders = [listed("a", "F1"), listed("b", "F2")];
    let folders = message_index
        .update_folders(ACCOUNT, &folders)
        .await
        .unwrap();
    for folder in &folders {
        assert_eq!(message_index.log.start_log(ACCOUNT).await.unwrap(), None);
        let unsynced = synced(folder, None);
        message_index
            .set_highest_modseq(ACCOUNT, &unsynced, 1)
            .await
            .unwrap();
    }
    assert!(message_index.replica(ACCOUNT).await.unwrap().is_none());
    assert_eq!(message_index.log.start_log(ACCOUNT).await.unwrap(), Some(0));
    folders
}

async fn version(message_index: &MessageIndex) -> u64 {
    message_index
        .log
        .log_state(ACCOUNT)
        .await
        .unwrap()
        .unwrap()
        .version
}

async fn changes_before_the_first_sync_are_not_logged(fresh: Fresh) {
    fresh.directory.with(ACCOUNT, "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    let folders = message_index
        .update_folders(ACCOUNT, &[listed("a", "F1")])
        .await
        .unwrap();
    let a = &folders[0];
    let unsynced = synced(a, None);
    message_index
        .set_highest_modseq(ACCOUNT, &unsynced, 1)
        .await
        .unwrap();
    let uids = add(message_index, a, &[(1, ""), (2, "\\Seen")]).await;
    message_index.remove(ACCOUNT, &uids[..1]).await.unwrap();
    assert_eq!(message_index.log.start_log(ACCOUNT).await.unwrap(), Some(0));
    assert_eq!(
        fresh.number("SELECT COUNT(*) FROM mailbox_changes").await,
        0
    );
    let replica = message_index.replica(ACCOUNT).await.unwrap().unwrap();
    let message = &replica.messages[0];
    assert_eq!(
        (message.number, message.imap_uid, &message.flags[..]),
        (uids[1], Uid(2), "\\Seen")
    );
    assert_eq!(replica.folders[message.folder].path, "a");
}

async fn a_message_without_flags_is_not_in_the_log(fresh: Fresh) {
    let folders = with_log(&fresh).await;
    let message_index = &fresh.directory.message_index;
    let new = [(Uid(7), [7; 16])];
    let numbers = message_index
        .assign_numbers(ACCOUNT, "a", 1, &new, &[])
        .await
        .unwrap()
        .unwrap();
    message_index
        .moved(ACCOUNT, "b", 1, &[(numbers[&Uid(7)], Uid(8))])
        .await
        .unwrap();
    assert_eq!(version(message_index).await, 0);
    assert!(
        message_index
            .replica(ACCOUNT)
            .await
            .unwrap()
            .unwrap()
            .messages
            .is_empty()
    );
    flag(message_index, &folders[1], &[(8, "")]).await;
    flag(message_index, &folders[1], &[(8, "")]).await;
    let changes = message_index
        .log
        .message_changes(ACCOUNT, (0, 1), (0, 1))
        .await
        .unwrap();
    let state = MessageState {
        folder: folders[1].id.clone(),
        flags: String::new(),
    };
    assert_eq!(
        (changes[0].before.as_ref(), changes[0].after.as_ref()),
        (None, Some(&state))
    );
    assert_eq!(version(message_index).await, 1);
}

async fn a_state_between_two_versions_is_read_after_later_changes(fresh: Fresh) {
    let folders = with_log(&fresh).await;
    let message_index = &fresh.directory.message_index;
    let uids = add(message_index, &folders[0], &[(1, ""), (2, "")]).await;
    flag(message_index, &folders[0], &[(1, "\\Seen")]).await;
    message_index
        .moved(ACCOUNT, "b", 1, &[(uids[0], Uid(9))])
        .await
        .unwrap();
    message_index.remove(ACCOUNT, &uids).await.unwrap();
    assert_eq!(version(message_index).await, 6);
    let state = |index: usize, flags: &str| {
        Some(MessageState {
            folder: folders[index].id.clone(),
            flags: flags.into(),
        })
    };
    let read = async |since, until| {
        let changes = message_index
            .log
            .message_changes(ACCOUNT, (since, until), (since, until))
            .await
            .unwrap();
        changes
            .into_iter()
            .map(|c| (c.number, c.before, c.after))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        read(0, 2).await,
        [(uids[0], None, state(0, "")), (uids[1], None, state(0, ""))]
    );
    assert_eq!(
        read(2, 4).await,
        [(uids[0], state(0, ""), state(1, "\\Seen"))]
    );
    assert_eq!(
        read(3, 4).await,
        [(uids[0], state(0, "\\Seen"), state(1, "\\Seen"))]
    );
    let mut last = read(4, 6).await;
    last.sort_by_key(|(uid, ..)| *uid);
    assert_eq!(
        last,
        [
            (uids[0], state(1, "\\Seen"), None),
            (uids[1], state(0, ""), None)
        ]
    );
    // The first changes of both messages, each in its own range of versions.
    let first = message_index
        .log
        .message_changes(ACCOUNT, (0, 6), (0, 1))
        .await
        .unwrap();
    let second = message_index
        .log
        .message_changes(ACCOUNT, (0, 6), (1, 6))
        .await
        .unwrap();
    assert_eq!((first[0].version, first.len()), (1, 1));
    assert_eq!((second[0].version, second.len()), (2, 1));
    let delta = message_index
        .replica_since(ACCOUNT, 4)
        .await
        .unwrap()
        .unwrap();
    assert!(delta.changed.is_empty() && delta.removed.len() == 2 && delta.version == 6);
}

async fn the_work_for_a_page_does_not_depend_on_the_number_of_changes(fresh: Fresh) {
    let folders = with_log(&fresh).await;
    let message_index = &fresh.directory.message_index;
    let uids = add(message_index, &folders[0], &[(1, ""), (2, "")]).await;
    flag(message_index, &folders[0], &[(1, "\\Seen")]).await;
    // Adds 3,000 changes of the first message and of the first folder, and 100 folders that
    // existed for a short time.
    let folder = &folders[0].id;
    let numbers = |end: u32| {
        format!("WITH RECURSIVE s (n) AS (SELECT 4 UNION ALL SELECT n + 1 FROM s WHERE n < {end}) ")
    };
    let columns = "INSERT INTO mailbox_changes \
         (account_id, version, uid, folder_id, flags, path, changed_at)";
    for statement in [
        format!(
            "{}{columns} SELECT 'ada', n, {}, '{folder}', 'x', NULL, 0 FROM s",
            numbers(3_000),
            uids[0]
        ),
        format!(
            "{}{columns} SELECT 'ada', 3000 + n, 0, '{folder}', NULL, 'old' || n, 0 FROM s",
            numbers(3_000)
        ),
        format!(
            "{}INSERT INTO folders (account_id, id, path, uid_validity, uid_next) \
             SELECT 'ada', 'gone' || n, 'gone' || n, 1, 1 FROM s",
            numbers(103)
        ),
        format!(
            "{}{columns} SELECT 'ada', 6000 + n, 0, 'gone' || n, NULL, NULL, 0 FROM s",
            numbers(103)
        ),
        "UPDATE mailboxes SET version = 7000".to_owned(),
    ] {
        execute(&message_index.db, statement.leak()).await.unwrap();
    }
    let messages: Vec<i64> = uids.iter().map(|uid| uid.0.cast_signed()).collect();
    for (version, expected) in [(0, 2), (2, 1), (2_000, 1), (6_000, 0)] {
        let later =
            history::first_changes_after(&message_index.db, ACCOUNT, version, &messages).await;
        assert_eq!(later.unwrap().len(), expected, "{version}");
    }
    let changes = message_index
        .log
        .message_changes(ACCOUNT, (2, 2_000), (2, 2_000))
        .await
        .unwrap();
    let flags = |state: &Option<MessageState>| state.as_ref().unwrap().flags.clone();
    assert_eq!(changes.len(), 1);
    assert_eq!(
        (
            changes[0].number,
            flags(&changes[0].before),
            flags(&changes[0].after)
        ),
        (uids[0], String::new(), "x".to_owned())
    );
    let histories = message_index
        .log
        .folder_histories(ACCOUNT, 3_005, 4_005)
        .await
        .unwrap();
    assert_eq!(histories.len(), 2);
    let found = histories.iter().find(|found| found.id == *folder).unwrap();
    let path = |path: &str| Some(path.to_owned());
    assert_eq!(
        (&found.before, &found.after, &found.now),
        (&path("old6"), &path("old1006"), &path("a"))
    );
}

async fn a_write_of_an_outdated_sync_does_nothing(fresh: Fresh) {
    let folders = with_log(&fresh).await;
    let message_index = &fresh.directory.message_index;
    let a = &folders[0];
    add(message_index, a, &[(1, "")]).await;
    let outdated = synced(a, Some(5));
    let seen = [(Uid(1), Arc::from("\\Seen"))];
    assert!(
        !message_index
            .set_flags(ACCOUNT, &outdated, &seen)
            .await
            .unwrap()
    );
    message_index
        .set_highest_modseq(ACCOUNT, &outdated, 9)
        .await
        .unwrap();
    let stored = &message_index.folders(ACCOUNT).await.unwrap()[0];
    assert_eq!(stored.highest_modseq(), Some(1));
    assert_eq!(version(message_index).await, 1);
    // A new UIDVALIDITY requires a full sync.
    let replaced = ListedFolder {
        uid_validity: 2,
        ..listed("a", "F1")
    };
    let stored = message_index
        .update_folders(ACCOUNT, &[replaced, listed("b", "F2")])
        .await
        .unwrap();
    assert_eq!(
        (stored[0].highest_modseq(), stored[1].highest_modseq()),
        (None, Some(1))
    );
}

async fn folders_are_logged_and_a_deletion_only_without_messages(fresh: Fresh) {
    let folders = with_log(&fresh).await;
    let message_index = &fresh.directory.message_index;
    let uids = add(message_index, &folders[0], &[(1, "")]).await;
    // The folder a is replaced by a new folder with the same path, and b is renamed.
    let after = [listed("a", "F3"), listed("c", "F2")];
    message_index.update_folders(ACCOUNT, &after).await.unwrap();
    assert_eq!(message_index.log.start_log(ACCOUNT).await.unwrap(), None);
    let a = [folders[0].id.clone()];
    message_index.remove_folders(ACCOUNT, &a).await.unwrap();
    assert_eq!(version(message_index).await, 3);
    message_index.remove(ACCOUNT, &uids).await.unwrap();
    for _ in 0..2 {
        message_index.remove_folders(ACCOUNT, &a).await.unwrap();
        assert_eq!(message_index.log.start_log(ACCOUNT).await.unwrap(), Some(5));
    }
    let mut paths: Vec<_> = message_index
        .log
        .folder_histories(ACCOUNT, 1, 5)
        .await
        .unwrap()
        .into_iter()
        .map(|f| (f.public_id, f.before, f.after))
        .collect();
    paths.sort();
    let path = |path: &str| Some(path.to_owned());
    let expected = [
        ("F1".to_owned(), path("a"), None),
        ("F2".to_owned(), path("b"), path("c")),
        ("F3".to_owned(), None, path("a")),
    ];
    assert_eq!(paths, expected);
    let replica = message_index.replica(ACCOUNT).await.unwrap().unwrap();
    let paths: Vec<&str> = replica.folders.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(paths, ["a", "c"]);
    // A deleted folder that is listed again is a created folder.
    let after = [listed("d", "F1"), listed("a", "F3"), listed("c", "F2")];
    message_index.update_folders(ACCOUNT, &after).await.unwrap();
    let histories = message_index
        .log
        .folder_histories(ACCOUNT, 5, 6)
        .await
        .unwrap();
    let found = histories.iter().find(|f| f.public_id == "F1").unwrap();
    assert_eq!(
        (found.before.clone(), found.after.clone()),
        (None, path("d"))
    );
}

async fn a_deleted_folder_is_removed_with_the_last_change_that_refers_to_it(fresh: Fresh) {
    let folders = with_log(&fresh).await;
    let message_index = &fresh.directory.message_index;
    message_index
        .update_folders(ACCOUNT, &[listed("a", "F1")])
        .await
        .unwrap();
    message_index
        .remove_folders(ACCOUNT, &[folders[1].id.clone()])
        .await
        .unwrap();
    let ids = async || -> Vec<String> {
        let folders = message_index.folders(ACCOUNT).await.unwrap();
        folders.into_iter().map(|folder| folder.id).collect()
    };
    // The log still contains the deletion of `b`.
    fresh.directory.sweep(Clock::default().now()).await.unwrap();
    assert_eq!(ids().await.len(), 2);
    fresh
        .directory
        .sweep(Clock::default().now().plus(2 * MONTH))
        .await
        .unwrap();
    assert_eq!(ids().await, [folders[0].id.clone()]);
}

async fn old_changes_are_deleted(fresh: Fresh) {
    let folders = with_log(&fresh).await;
    let message_index = &fresh.directory.message_index;
    add(message_index, &folders[0], &[(1, ""), (2, ""), (3, "")]).await;
    execute(
        &message_index.db,
        "UPDATE mailbox_changes SET changed_at = 4070908800000 WHERE version = 3",
    )
    .await
    .unwrap();
    fresh.directory.sweep(NOW).await.unwrap();
    let state = message_index.log.log_state(ACCOUNT).await.unwrap().unwrap();
    assert_eq!((state.version, state.pruned_version), (3, 2));
    assert!(
        message_index
            .replica_since(ACCOUNT, 1)
            .await
            .unwrap()
            .is_none()
    );
    let delta = message_index
        .replica_since(ACCOUNT, 2)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(delta.changed.len(), 1);
    fresh.directory.sweep(NOW.plus(2 * MONTH)).await.unwrap();
    let state = message_index.log.log_state(ACCOUNT).await.unwrap().unwrap();
    assert_eq!((state.version, state.pruned_version), (3, 3));
    assert_eq!(
        fresh.number("SELECT COUNT(*) FROM mailbox_changes").await,
        0
    );
    assert!(
        message_index
            .replica_since(ACCOUNT, 4)
            .await
            .unwrap()
            .is_none()
    );
    add(message_index, &folders[0], &[(4, "")]).await;
    assert_eq!(version(message_index).await, 4);
    execute(&message_index.db, "DELETE FROM accounts WHERE id = 'ada'")
        .await
        .unwrap();
    assert_eq!(
        fresh.number("SELECT COUNT(*) FROM mailbox_changes").await,
        0
    );
}

both!(
    changes_before_the_first_sync_are_not_logged,
    a_message_without_flags_is_not_in_the_log,
    a_state_between_two_versions_is_read_after_later_changes,
    the_work_for_a_page_does_not_depend_on_the_number_of_changes,
    a_write_of_an_outdated_sync_does_nothing,
    folders_are_logged_and_a_deletion_only_without_messages,
    a_deleted_folder_is_removed_with_the_last_change_that_refers_to_it,
    old_changes_are_deleted,
);
