use super::*;
use crate::directory::testing::{Fresh, both};

const FIRST: Opened = Opened {
    exists: 0,
    uid_validity: 7,
    uid_next: 100,
};

fn messages(uids: impl IntoIterator<Item = u32>) -> Vec<(u32, Identity)> {
    uids.into_iter()
        .map(|uid| (uid, [uid.to_be_bytes()[3]; 16]))
        .collect()
}

async fn numbered(fresh: &Fresh, path: &str, opened: Opened, uids: &[u32]) -> Vec<u64> {
    let messages = messages(uids.iter().copied());
    let numbers = numbers(fresh.directory.db(), "ada", path, opened, &messages)
        .await
        .unwrap();
    uids.iter().map(|uid| numbers[uid]).collect()
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
    let found = place(fresh.directory.db(), "ada", 4)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (
            found.spot().path,
            found.spot().uid_validity,
            found.spot().uid
        ),
        ("INBOX", 7, 4)
    );
    for unknown in [0, 6, u64::MAX] {
        assert_eq!(
            place(fresh.directory.db(), "ada", unknown).await.unwrap(),
            None
        );
    }
    assert_eq!(place(fresh.directory.db(), "bob", 4).await.unwrap(), None);
}

async fn a_folder_is_noted_as_it_was_first_seen_under_its_validity(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let seen = async || {
        (
            fresh.number("SELECT uid_validity FROM folders").await,
            fresh.number("SELECT uid_next FROM folders").await,
        )
    };
    assert!(numbered(&fresh, "INBOX", FIRST, &[]).await.is_empty());
    assert_eq!(seen().await, (7, 100));
    let later = Opened {
        uid_next: 200,
        ..FIRST
    };
    assert_eq!(numbered(&fresh, "INBOX", later, &[150]).await, [1]);
    assert_eq!(seen().await, (7, 100));
    // Made anew: the same UID is another place, and the old row stays.
    let anew = Opened {
        uid_validity: 8,
        uid_next: 3,
        ..FIRST
    };
    assert_eq!(numbered(&fresh, "INBOX", anew, &[150]).await, [2]);
    assert_eq!(seen().await, (8, 3));
    assert_eq!(fresh.number("SELECT COUNT(*) FROM messages").await, 2);
}

async fn of_parallel_listings_all_answer_the_same_numbers(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let tasks: Vec<_> = (0..12_u32)
        .map(|n| {
            let db = fresh.directory.db().clone();
            tokio::spawn(async move {
                // They overlap, and none is like another. There is no UID 0.
                let messages = messages(n..n + 40);
                numbers(&db, "ada", "INBOX", FIRST, &messages[usize::from(n == 0)..])
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut all: HashMap<u32, u64> = HashMap::new();
    for task in tasks {
        for (uid, number) in task.await.unwrap() {
            assert_eq!(*all.entry(uid).or_insert(number), number);
        }
    }
    let mut given: Vec<_> = all.values().copied().collect();
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

both!(
    numbers_are_given_once_in_the_order_of_the_uids,
    a_folder_is_noted_as_it_was_first_seen_under_its_validity,
    of_parallel_listings_all_answer_the_same_numbers,
    more_messages_than_fit_one_statement_are_numbered,
);
