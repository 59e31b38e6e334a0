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

/// The numbers of messages as a listing has them given.
async fn given(
    db: &Db,
    path: &str,
    opened: Opened,
    messages: &[(u32, Identity)],
    gone: &[Rival],
) -> HashMap<u32, u64> {
    match numbers(db, "ada", path, opened, messages).await.unwrap() {
        Some(numbers) => numbers,
        None => allot(db, "ada", path, opened, messages, gone)
            .await
            .unwrap(),
    }
}

async fn numbered(fresh: &Fresh, path: &str, opened: Opened, uids: &[u32]) -> Vec<u64> {
    let messages = messages(uids.iter().copied());
    let numbers = given(fresh.directory.db(), path, opened, &messages, &[]).await;
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

async fn a_folder_is_noted_as_it_stood_at_the_survey_or_from_its_beginning(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let db = fresh.directory.db();
    let noted = async || {
        let folders = noted_folders(db, "ada").await.unwrap();
        let noted = |f: &Noted| (f.path.clone(), f.uid_validity(), f.uid_next());
        let named = folders.iter().filter(|f| !f.path.starts_with('\n'));
        named.map(noted).collect::<Vec<_>>()
    };
    let id = async |validity| {
        let folders = noted_folders(db, "ada").await.unwrap();
        let mut found = folders.iter().filter(|f| f.uid_validity() == validity);
        found.next().unwrap().public_id().to_owned()
    };
    assert!(!is_known(db, "ada").await.unwrap());
    let inbox = Seen {
        path: "INBOX",
        opened: FIRST,
        object_id: None,
    };
    survey(db, "ada", &[inbox]).await.unwrap();
    assert!(is_known(db, "ada").await.unwrap());
    assert_eq!(numbered(&fresh, "INBOX", FIRST, &[150]).await, [1]);
    assert_eq!(noted().await, [("INBOX".into(), 7, 100)]);
    // What was not there at the survey may have been filled from elsewhere.
    assert_eq!(numbered(&fresh, "New", FIRST, &[150]).await, [2]);
    // Made anew: the same UID is another place, the folder another one, and what was noted of the old one stays.
    let old = id(7).await;
    let anew = Opened {
        uid_validity: 8,
        uid_next: 3,
        ..FIRST
    };
    assert_eq!(numbered(&fresh, "INBOX", anew, &[150]).await, [3]);
    let (inbox, new) = (("INBOX".to_owned(), 8, 1), ("New".to_owned(), 7, 1));
    assert_eq!(noted().await, [inbox, new]);
    assert_ne!(id(8).await, old);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM messages").await, 3);
    // What was looked at is looked at no more, and a look that is over late takes nothing back.
    for next in [9, 5] {
        seen_to(db, "ada", "INBOX", 8, next).await.unwrap();
        seen_to(db, "ada", "INBOX", 7, 500).await.unwrap();
    }
    assert_eq!(noted().await[0], ("INBOX".to_owned(), 8, 9));
}

async fn the_mail_servers_id_is_the_newest_folders_alone(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    fresh.directory.with("bob", "bob@example.org", &[]).await;
    let db = fresh.directory.db();
    let seen = |uid_validity| Seen {
        path: "Work",
        opened: Opened {
            uid_validity,
            ..FIRST
        },
        object_id: Some("F1"),
    };
    note(db, "bob", &[seen(7)]).await.unwrap();
    for validity in [7, 8] {
        note(db, "ada", &[seen(validity)]).await.unwrap();
    }
    let named = async |account| {
        let folders = noted_folders(db, account).await.unwrap();
        let named = folders.into_iter().filter(|f| f.public_id() == "F1");
        named.map(|f| f.uid_validity()).collect::<Vec<_>>()
    };
    assert_eq!(named("ada").await, [8]);
    assert_eq!(named("bob").await, [7]);
}

async fn a_message_whose_place_is_empty_takes_its_number_along(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let db = fresh.directory.db();
    let same = |uids: &[u32]| uids.iter().map(|uid| (*uid, [9; 16])).collect::<Vec<_>>();
    given(db, "INBOX", FIRST, &same(&[3, 5, 8]), &[]).await;
    let rivals = rivals(db, "ada", &[[9; 16]]).await.unwrap();
    let numbers: Vec<u64> = rivals.iter().map(|r| r.placed.number()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    // The second stands where it stood: equal ones pair in the order of their UIDs, and who is left over is a copy.
    let gone = [rivals[0].clone(), rivals[2].clone()];
    let found = given(db, "Sent", FIRST, &same(&[40, 41, 42]), &gone).await;
    let found: Vec<u64> = [40, 41, 42].iter().map(|uid| found[uid]).collect();
    assert_eq!(found, [1, 3, 4]);
    // They have a home now: whoever thought them gone finds them no more.
    let late = given(db, "Trash", FIRST, &same(&[7]), &gone).await;
    assert_eq!(late[&7], 5);
    let place = place(db, "ada", 3).await.unwrap().unwrap();
    assert_eq!((place.spot().path, place.spot().uid), ("Sent", 41));
}

async fn a_move_takes_numbers_along_and_deleted_ones_never_come_again(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let db = fresh.directory.db();
    numbered(&fresh, "INBOX", FIRST, &[1, 2, 3]).await;
    // Somebody saw the second there before its move was written down.
    assert_eq!(numbered(&fresh, "Archive", FIRST, &[20]).await, [4]);
    moved(db, "ada", "Archive", 7, &[(1, 10), (2, 20)])
        .await
        .unwrap();
    assert_eq!(numbered(&fresh, "Archive", FIRST, &[10, 20]).await, [1, 2]);
    moved(db, "ada", "Fresh", 1, &[(3, 1)]).await.unwrap();
    let path = place(db, "ada", 3).await.unwrap().unwrap();
    assert_eq!(path.spot().path, "Fresh");
    forget(db, "ada", &[1, 4, u64::MAX]).await.unwrap();
    assert_eq!(place(db, "ada", 1).await.unwrap(), None);
    assert_eq!(numbered(&fresh, "INBOX", FIRST, &[4]).await, [5]);
}

async fn a_folder_that_is_renamed_takes_its_messages_along(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let db = fresh.directory.db();
    numbered(&fresh, "a", FIRST, &[1]).await;
    numbered(&fresh, "b", FIRST, &[1]).await;
    let folders = noted_folders(db, "ada").await.unwrap();
    assert_eq!(sample(db, &folders[0]).await.unwrap().len(), 1);
    // Two change names, and a third that is gone gives up its own.
    let swapped: Vec<_> = folders
        .iter()
        .cloned()
        .zip(["b".into(), "a".into()])
        .collect();
    follow(db, "ada", &swapped).await.unwrap();
    let at = async |uid| place(db, "ada", uid).await.unwrap().unwrap().path;
    assert_eq!((at(1).await, at(2).await), ("b".into(), "a".into()));
    follow(db, "ada", &[(folders[0].clone(), "a".into())])
        .await
        .unwrap();
    assert_eq!(at(1).await, "a");
    assert!(at(2).await.starts_with('\n'));
}

async fn of_parallel_listings_all_answer_the_same_numbers(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &[]).await;
    let tasks: Vec<_> = (0..12_u32)
        .map(|n| {
            let db = fresh.directory.db().clone();
            tokio::spawn(async move {
                // They overlap, and none is like another. There is no UID 0.
                let messages = messages(n..n + 40);
                given(&db, "INBOX", FIRST, &messages[usize::from(n == 0)..], &[]).await
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
    a_folder_is_noted_as_it_stood_at_the_survey_or_from_its_beginning,
    the_mail_servers_id_is_the_newest_folders_alone,
    a_message_whose_place_is_empty_takes_its_number_along,
    a_move_takes_numbers_along_and_deleted_ones_never_come_again,
    a_folder_that_is_renamed_takes_its_messages_along,
    of_parallel_listings_all_answer_the_same_numbers,
    more_messages_than_fit_one_statement_are_numbered,
);
