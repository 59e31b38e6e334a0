use super::*;
use crate::testing::{Fresh, both};

/// The UIDVALIDITY of most folders.
const FIRST: u32 = 7;

fn messages(uids: impl IntoIterator<Item = u32>) -> Vec<(Uid, Identity)> {
    uids.into_iter()
        .map(|uid| (Uid(uid), [uid.to_be_bytes()[3]; 16]))
        .collect()
}

fn seen<'a>(path: &'a str, uid_validity: u32, object_id: Option<&'a str>) -> ListedFolder<'a> {
    ListedFolder {
        path,
        uid_validity,
        uid_next: 100,
        object_id,
    }
}

/// Returns an indexed folder as the server lists it if nothing has changed.
fn listed(indexed: &IndexedFolder) -> ListedFolder<'_> {
    ListedFolder {
        uid_next: indexed.uid_next(),
        ..seen(&indexed.path, indexed.uid_validity(), indexed.object_id())
    }
}

/// Returns the numbers of messages of a folder. Adds the folder to the index if needed.
async fn given(
    message_index: &MessageIndex,
    path: &str,
    uid_validity: u32,
    messages: &[(Uid, Identity)],
    moved: &[(Uid, IndexedMessage)],
) -> HashMap<Uid, MessageNumber> {
    let allotted = || message_index.assign_numbers("ada", path, uid_validity, messages, moved);
    if let Some(numbers) = allotted().await.unwrap() {
        return numbers;
    }
    let indexed = message_index.folders("ada").await.unwrap();
    let mut folders: Vec<ListedFolder<'_>> = indexed.iter().map(listed).collect();
    folders.retain(|folder| folder.path != path && !folder.path.starts_with('\n'));
    folders.push(seen(path, uid_validity, None));
    message_index.update_folders("ada", &folders).await.unwrap();
    allotted().await.unwrap().unwrap()
}

async fn numbered(fresh: &Fresh, path: &str, uid_validity: u32, uids: &[u32]) -> Vec<u64> {
    let messages = messages(uids.iter().copied());
    let numbers = given(
        &fresh.directory.message_index,
        path,
        uid_validity,
        &messages,
        &[],
    )
    .await;
    uids.iter().map(|uid| numbers[&Uid(*uid)].0).collect()
}

async fn numbers_are_given_once_in_the_order_of_the_uids(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    assert_eq!(
        numbered(&fresh, "INBOX", FIRST, &[9, 3, 5]).await,
        [3, 1, 2]
    );
    assert_eq!(
        numbered(&fresh, "INBOX", FIRST, &[3, 4, 9]).await,
        [1, 4, 3]
    );
    assert_eq!(numbered(&fresh, "Sent", FIRST, &[3]).await, [5]);
    let found = fresh
        .directory
        .message_index
        .location("ada", MessageNumber(4))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (&found.path[..], found.uid_validity(), found.imap_uid().0),
        ("INBOX", 7, 4)
    );
    for unknown in [0, 6, u64::MAX] {
        assert_eq!(
            fresh
                .directory
                .message_index
                .location("ada", MessageNumber(unknown))
                .await
                .unwrap(),
            None
        );
    }
    assert_eq!(
        fresh
            .directory
            .message_index
            .location("bob", MessageNumber(4))
            .await
            .unwrap(),
        None
    );
}

async fn a_folder_is_noted_as_it_stood_at_the_survey_or_from_its_beginning(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    let noted = async || {
        let folders = message_index.folders("ada").await.unwrap();
        let noted = |f: &IndexedFolder| (f.path.clone(), f.uid_validity(), f.uid_next());
        let named = folders.iter().filter(|f| !f.path.starts_with('\n'));
        named.map(noted).collect::<Vec<_>>()
    };
    let id = async |validity| {
        let folders = message_index.folders("ada").await.unwrap();
        let mut found = folders.iter().filter(|f| f.uid_validity() == validity);
        found.next().unwrap().public_id().to_owned()
    };
    assert!(!message_index.has_folders("ada").await.unwrap());
    message_index
        .update_folders("ada", &[seen("INBOX", FIRST, None)])
        .await
        .unwrap();
    assert!(message_index.has_folders("ada").await.unwrap());
    assert_eq!(numbered(&fresh, "INBOX", FIRST, &[150]).await, [1]);
    assert_eq!(noted().await, [("INBOX".into(), 7, 100)]);
    // A folder that appeared after the first indexing may contain messages from other folders.
    assert_eq!(numbered(&fresh, "New", FIRST, &[150]).await, [2]);
    // The folder was created again: the same UID is another location, it is another folder, and the
    // old rows stay.
    let old = id(7).await;
    assert_eq!(numbered(&fresh, "INBOX", 8, &[150]).await, [3]);
    let (inbox, new) = (("INBOX".to_owned(), 8, 1), ("New".to_owned(), 7, 1));
    assert_eq!(noted().await, [inbox, new]);
    assert_ne!(id(8).await, old);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM messages").await, 3);
    // The position only moves forward, even if a slower reconciliation ends later.
    for next in [9, 5] {
        message_index
            .set_uid_next("ada", "INBOX", 8, next)
            .await
            .unwrap();
        message_index
            .set_uid_next("ada", "INBOX", 7, 500)
            .await
            .unwrap();
    }
    assert_eq!(noted().await[0], ("INBOX".to_owned(), 8, 9));
}

async fn a_folder_is_the_same_as_long_as_the_mail_server_says_so(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    fresh.directory.with("bob", "bob@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    let ids = async |account, folders: &[ListedFolder<'_>]| -> Vec<String> {
        let noted = message_index
            .update_folders(account, folders)
            .await
            .unwrap();
        noted.into_iter().map(|noted| noted.id).collect()
    };
    let before = ids("ada", &[seen("a", 7, Some("F1")), seen("b", 8, Some("F2"))]).await;
    ids("bob", &[seen("a", 7, Some("F1"))]).await;
    numbered(&fresh, "a", 7, &[3]).await;
    // The two folders swap their names, and the first one gets another UIDVALIDITY.
    let after = ids("ada", &[seen("a", 8, Some("F2")), seen("b", 9, Some("F1"))]).await;
    assert_eq!(after, [before[1].as_str(), before[0].as_str()]);
    let noted = message_index.folders("ada").await.unwrap();
    let positions: Vec<_> = noted
        .iter()
        .map(|n| (n.uid_validity(), n.uid_next()))
        .collect();
    assert_eq!(positions, [(8, 100), (9, 1)]);
    // Without the server's ids, folders are matched by path and UIDVALIDITY, and keep their ids.
    let without = ids("ada", &[seen("a", 8, None), seen("b", 9, None)]).await;
    assert_eq!(without, after);
    let noted = message_index.folders("ada").await.unwrap();
    assert_eq!(noted[0].public_id(), "F2");
    // A new folder has the name of a deleted one, whose messages stay indexed.
    let new = ids("ada", &[seen("a", 8, Some("F3")), seen("b", 9, Some("F1"))]).await;
    assert!(new[0] != after[0] && new[1] == after[1]);
    let back = ids("ada", &[seen("c", 8, Some("F2")), seen("b", 9, Some("F1"))]).await;
    assert_eq!(back, after);
}

async fn a_folder_that_is_listed_twice_is_one(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    let listed = [
        seen("a", FIRST, Some("F1")),
        seen("alias of a", FIRST, Some("F1")),
        seen("a", FIRST, None),
    ];
    for _ in 0..2 {
        let noted = message_index.update_folders("ada", &listed).await.unwrap();
        assert_eq!(noted[0], noted[2]);
        let ids: Vec<_> = noted.iter().map(IndexedFolder::object_id).collect();
        assert_eq!(ids, [Some("F1"), None, Some("F1")]);
        assert_eq!(message_index.folders("ada").await.unwrap(), noted[..2]);
    }
}

async fn a_message_that_moved_takes_its_number_along(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    let same = |uids: &[u32]| {
        uids.iter()
            .map(|uid| (Uid(*uid), [9; 16]))
            .collect::<Vec<_>>()
    };
    given(message_index, "INBOX", FIRST, &same(&[3, 5, 8]), &[]).await;
    let rivals = message_index
        .with_identities("ada", &[[9; 16]])
        .await
        .unwrap();
    let numbers: Vec<u64> = rivals.iter().map(|message| message.number().0).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let moved = |uid, rival: &IndexedMessage| [(Uid(uid), rival.clone())];
    let found = given(
        message_index,
        "Sent",
        FIRST,
        &same(&[40, 41]),
        &moved(41, &rivals[2]),
    )
    .await;
    assert_eq!((found[&Uid(40)].0, found[&Uid(41)].0), (4, 3));
    // The message with number 3 is now in `Sent`. A reconciliation that still has the old location
    // must not move this number again or remove it, or give the message another number.
    let late = given(
        message_index,
        "Trash",
        FIRST,
        &same(&[7]),
        &moved(7, &rivals[2]),
    )
    .await;
    assert!(late.is_empty());
    message_index
        .remove_lost("ada", &[rivals[0].clone(), rivals[2].clone()])
        .await
        .unwrap();
    let left = message_index
        .location("ada", MessageNumber(3))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&left.path[..], left.imap_uid().0), ("Sent", 41));
    assert_eq!(
        message_index
            .location("ada", MessageNumber(1))
            .await
            .unwrap(),
        None
    );
}

async fn messages_with_copies_are_known_as_such(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    numbered(&fresh, "INBOX", FIRST, &[1, 2, 3]).await;
    assert_eq!(message_index.copied_folders("ada").await.unwrap(), [""; 0]);
    numbered(&fresh, "Sent", FIRST, &[2, 4]).await;
    let mut folders = message_index.copied_folders("ada").await.unwrap();
    folders.sort();
    assert_eq!(folders, ["INBOX", "Sent"]);
    for (folder, number) in [("INBOX", 2), ("Sent", 4)] {
        let copies = message_index.copies_in("ada", folder).await.unwrap();
        let numbers: Vec<u64> = copies.iter().map(|message| message.number().0).collect();
        assert_eq!(numbers, [number]);
    }
    assert_eq!(message_index.copied_folders("bob").await.unwrap(), [""; 0]);
}

/// Adds `count` copies of the message with this identity to the folder INBOX, without
/// [`assign_numbers`].
async fn add_copies(fresh: &Fresh, identity: Identity, count: i64) {
    let copies = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) \
        INSERT INTO messages \
        (account_id, uid, folder_id, uid_validity, imap_uid, identity, copied) \
        SELECT 'ada', i, (SELECT id FROM folders WHERE path = 'INBOX'), 7, i, $2, TRUE FROM n";
    let next = "INSERT INTO mailboxes (account_id, next_uid) VALUES ('ada', $1) \
        ON CONFLICT (account_id) DO UPDATE SET next_uid = $1";
    let db = fresh.directory.db();
    let copy = (count, &identity[..]);
    db.execute(copies, copy).await.unwrap();
    db.execute(next, [count + 1]).await.unwrap();
}

/// SQLite has one write lock. So the time of this statement delays all accounts.
async fn the_time_to_number_a_copy_does_not_depend_on_the_number_of_copies(fresh: Fresh) {
    const COPIES: u32 = 64_000;
    const NEW: u32 = 500;
    /// The time on an idle machine is below 50 ms. Reading all pairs takes many seconds.
    const LIMIT: std::time::Duration = std::time::Duration::from_secs(1);
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    let inbox = [seen("INBOX", FIRST, None)];
    message_index.update_folders("ada", &inbox).await.unwrap();
    add_copies(&fresh, [9; 16], COPIES.into()).await;
    let new: Vec<_> = (COPIES..COPIES + NEW)
        .map(|uid| (Uid(uid + 1), [9; 16]))
        .collect();
    let started = std::time::Instant::now();
    let numbers = message_index.assign_numbers("ada", "INBOX", FIRST, &new, &[]);
    let numbers = numbers.await.unwrap().unwrap();
    let elapsed = started.elapsed();
    assert!(elapsed < LIMIT, "{elapsed:?}");
    assert_eq!(numbers.len(), new.len());
    let copies = message_index.copies_in("ada", "INBOX").await.unwrap();
    assert_eq!(copies.len(), (COPIES + NEW) as usize);
    assert!(
        message_index
            .has_identity("ada", &[[8; 16], [9; 16]])
            .await
            .unwrap()
    );
    assert!(!message_index.has_identity("ada", &[[8; 16]]).await.unwrap());
}

async fn a_move_takes_numbers_along_and_deleted_ones_never_come_again(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    numbered(&fresh, "INBOX", FIRST, &[1, 2, 3]).await;
    // Another request saw the second message in the new folder before its move was stored.
    assert_eq!(numbered(&fresh, "Archive", FIRST, &[20]).await, [4]);
    message_index
        .moved(
            "ada",
            "Archive",
            7,
            &[(MessageNumber(1), Uid(10)), (MessageNumber(2), Uid(20))],
        )
        .await
        .unwrap();
    assert_eq!(numbered(&fresh, "Archive", FIRST, &[10, 20]).await, [1, 2]);
    // The folder must be in the index first.
    assert!(
        !message_index
            .moved("ada", "Fresh", 1, &[(MessageNumber(3), Uid(1))])
            .await
            .unwrap()
    );
    numbered(&fresh, "Fresh", 1, &[]).await;
    assert!(
        message_index
            .moved("ada", "Fresh", 1, &[(MessageNumber(3), Uid(1))])
            .await
            .unwrap()
    );
    let path = message_index
        .location("ada", MessageNumber(3))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(path.path, "Fresh");
    message_index
        .remove("ada", &[1, 4, u64::MAX].map(MessageNumber))
        .await
        .unwrap();
    assert_eq!(
        message_index
            .location("ada", MessageNumber(1))
            .await
            .unwrap(),
        None
    );
    assert_eq!(numbered(&fresh, "INBOX", FIRST, &[4]).await, [5]);
}

async fn of_parallel_listings_all_answer_the_same_numbers(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let tasks: Vec<_> = (0..12_u32)
        .map(|n| {
            let message_index = fresh.directory.message_index.clone();
            tokio::spawn(async move {
                // The ranges overlap and are all different. UID 0 does not exist.
                let messages = messages(n..n + 40);
                given(
                    &message_index,
                    "INBOX",
                    FIRST,
                    &messages[usize::from(n == 0)..],
                    &[],
                )
                .await
            })
        })
        .collect();
    let mut all: HashMap<Uid, MessageNumber> = HashMap::new();
    for task in tasks {
        for (uid, number) in task.await.unwrap() {
            assert_eq!(*all.entry(uid).or_insert(number), number);
        }
    }
    let mut given: Vec<_> = all.values().map(|number| number.0).collect();
    given.sort_unstable();
    assert_eq!(given, (1..=50).collect::<Vec<_>>());
}

async fn more_messages_than_fit_one_statement_are_numbered(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let uids: Vec<u32> = (1..=1200).collect();
    let expected: Vec<u64> = (1..=1200).collect();
    assert_eq!(numbered(&fresh, "INBOX", FIRST, &uids).await, expected);
    assert_eq!(numbered(&fresh, "INBOX", FIRST, &uids).await, expected);
}

async fn a_folder_with_the_longest_path_is_indexed(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    // The client of the mail server omits longer paths. PostgreSQL compresses repeated characters.
    let mut state = 1_u32;
    let path: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + u8::try_from((state >> 24) % 90).unwrap())
    })
    .take(2_000)
    .collect();
    assert_eq!(numbered(&fresh, &path, FIRST, &[1]).await, [1]);
    let found = fresh
        .directory
        .message_index
        .location("ada", MessageNumber(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.path, path);
}

async fn merged_threads_are_replaced_in_batches(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    let uids: Vec<u32> = (1..=1200).collect();
    let numbers = numbered(&fresh, "INBOX", FIRST, &uids).await;
    let numbers: Vec<MessageNumber> = numbers.into_iter().map(MessageNumber).collect();
    let set = async |threads: Vec<(MessageNumber, u64)>| {
        message_index
            .set_merged_threads("ada", threads)
            .await
            .unwrap();
        let mut stored: Vec<_> = message_index
            .merged_threads("ada", &numbers)
            .await
            .unwrap()
            .into_iter()
            .collect();
        stored.sort_unstable();
        stored
    };
    // The largest number does not fit into the database's signed type.
    let first: Vec<(MessageNumber, u64)> = numbers
        .iter()
        .map(|number| (*number, u64::MAX - number.0))
        .collect();
    let mut with_removed = first.clone();
    with_removed.push((MessageNumber(9_999), 1));
    assert_eq!(set(with_removed).await, first);
    let mut second: Vec<(MessageNumber, u64)> = first[..600].to_vec();
    second[0].1 = 7;
    assert_eq!(set(second.clone()).await, second);
    assert_eq!(set(second.clone()).await, second);
    assert_eq!(set(first.clone()).await, first);
    assert_eq!(set(Vec::new()).await, []);
    assert!(!message_index.has_merged_threads("ada").await.unwrap());
}

async fn the_folder_before_the_last_move_is_known_by_its_current_path(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    let same = [(Uid(3), [9; 16]), (Uid(4), [8; 16])];
    given(message_index, "Work", FIRST, &same, &[]).await;
    numbered(&fresh, "Trash", FIRST, &[]).await;
    let numbers = [1, 2].map(MessageNumber);
    let previous = async || {
        let mut found = message_index
            .previous_folders("ada", &numbers)
            .await
            .unwrap();
        found.sort_unstable();
        found
    };
    assert!(previous().await.is_empty());
    // The service moves message 1. Another client moves message 2.
    let moved = [(MessageNumber(1), Uid(10))];
    assert!(
        message_index
            .moved("ada", "Trash", FIRST, &moved)
            .await
            .unwrap()
    );
    let found = message_index.with_identities("ada", &[[8; 16]]).await;
    let other = [(Uid(11), found.unwrap().remove(0))];
    given(message_index, "Trash", FIRST, &[(Uid(11), [8; 16])], &other).await;
    let both = |path: &str| numbers.map(|number| (number, path.to_owned()));
    assert_eq!(previous().await, both("Work"));
    // A move to the same folder keeps the previous folder.
    let moved = [(MessageNumber(1), Uid(12))];
    assert!(
        message_index
            .moved("ada", "Trash", FIRST, &moved)
            .await
            .unwrap()
    );
    assert_eq!(previous().await, both("Work"));
    let others = message_index.previous_folders("bob", &numbers).await;
    assert!(others.unwrap().is_empty());
    // Another client deletes the folder, and creates a folder with the same name.
    let trash = seen("Trash", FIRST, None);
    let work = seen("Work", 8, None);
    message_index
        .update_folders("ada", &[trash, work])
        .await
        .unwrap();
    assert!(previous().await.is_empty());
}

async fn each_batch_of_merged_threads_is_one_transaction(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    let uids: Vec<u32> = (1..=1200).collect();
    let numbers = numbered(&fresh, "INBOX", FIRST, &uids).await;
    assert_eq!(numbers.last(), Some(&1200));
    let numbers: Vec<MessageNumber> = numbers.into_iter().map(MessageNumber).collect();
    let refuse_last = match fresh.directory.db() {
        Db::Sqlite(..) => {
            "CREATE TRIGGER refuse_last BEFORE INSERT ON merged_threads WHEN NEW.uid = 1200 \
             BEGIN SELECT RAISE(ABORT, 'refused'); END"
        }
        Db::Postgres(_) => {
            "ALTER TABLE merged_threads ADD CONSTRAINT refuse_last CHECK (uid <> 1200)"
        }
    };
    fresh.execute(refuse_last).await;
    let threads = numbers.iter().map(|number| (*number, 1)).collect();
    let refused = message_index.set_merged_threads("ada", threads).await;
    assert!(refused.is_err());
    let stored = message_index.merged_threads("ada", &numbers).await.unwrap();
    assert_eq!(stored.len(), 2 * MAX_PER_STATEMENT);
}

async fn a_renamed_folder_without_a_server_id_keeps_its_id_and_its_numbers(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let message_index = &fresh.directory.message_index;
    let numbers = numbered(&fresh, "a", FIRST, &[1, 2]).await;
    let first = message_index
        .update_folders("ada", &[seen("a", FIRST, None), seen("a/b", 8, None)])
        .await
        .unwrap();
    // A deleted folder had the new path.
    let old = [
        seen("c", 9, None),
        seen("a", FIRST, None),
        seen("a/b", 8, None),
    ];
    message_index.update_folders("ada", &old).await.unwrap();
    message_index
        .remove_folders("ada", &[old_id(message_index, "c").await])
        .await
        .unwrap();
    let renamed = [("a", "c"), ("a/b", "c/b")];
    let renamed = renamed.map(|(from, to)| (from.to_owned(), to.to_owned()));
    message_index
        .rename_folders("ada", &HashMap::from(renamed))
        .await
        .unwrap();
    let now = [seen("c", FIRST, None), seen("c/b", 8, None)];
    let second = message_index.update_folders("ada", &now).await.unwrap();
    let ids = |folders: &[IndexedFolder]| -> Vec<String> {
        folders.iter().map(|folder| folder.id.clone()).collect()
    };
    assert_eq!(ids(&second), ids(&first));
    assert_eq!(numbered(&fresh, "c", FIRST, &[1, 2]).await, numbers);
}

async fn old_id(message_index: &MessageIndex, path: &str) -> String {
    let folders = message_index.folders("ada").await.unwrap();
    let found = folders.into_iter().find(|folder| folder.path == path);
    found.unwrap().id
}

both!(
    numbers_are_given_once_in_the_order_of_the_uids,
    a_folder_is_noted_as_it_stood_at_the_survey_or_from_its_beginning,
    a_folder_is_the_same_as_long_as_the_mail_server_says_so,
    a_folder_that_is_listed_twice_is_one,
    a_message_that_moved_takes_its_number_along,
    messages_with_copies_are_known_as_such,
    the_time_to_number_a_copy_does_not_depend_on_the_number_of_copies,
    a_move_takes_numbers_along_and_deleted_ones_never_come_again,
    of_parallel_listings_all_answer_the_same_numbers,
    more_messages_than_fit_one_statement_are_numbered,
    a_folder_with_the_longest_path_is_indexed,
    merged_threads_are_replaced_in_batches,
    a_renamed_folder_without_a_server_id_keeps_its_id_and_its_numbers,
    each_batch_of_merged_threads_is_one_transaction,
    the_folder_before_the_last_move_is_known_by_its_current_path,
);
