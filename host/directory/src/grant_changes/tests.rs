use super::*;
use crate::testing::{DAY, Fresh, NOW, both};

const OWNER: (&str, &str) = ("ada", "g");
const LIMITS: Limits = Limits {
    changes: 4,
    bytes: 100,
};

fn change(kind: &'static str, subject: &str) -> NewChange {
    NewChange {
        kind,
        subject: subject.to_owned(),
        number: Some(MessageNumber(7)),
        before: Some(place(1)),
        details: "{}".to_owned(),
        bytes: None,
    }
}

fn place(imap_uid: u32) -> Place {
    Place {
        folder: "folder".to_owned(),
        uid_validity: 9,
        imap_uid,
    }
}

fn with_bytes(key_id: &str, size: i64) -> NewChange {
    NewChange {
        bytes: Some(SealedBytes {
            key_id: key_id.to_owned(),
            sealed_key: b"key".to_vec(),
            size,
            chunks: vec![b"zero".to_vec(), b"one".to_vec()],
        }),
        ..change("draft_delete", key_id)
    }
}

async fn changes_are_recorded_completed_and_listed(fresh: Fresh) {
    let journal = &fresh.directory.grant_changes;
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &[]).await;
    let begin = async |changes: &[NewChange], now| {
        let begun = journal.begin(OWNER, changes, LIMITS, now);
        begun.await.unwrap()
    };
    let ids = begin(&[change("move", "b"), change("move", "a")], NOW).await;
    let ids = ids.unwrap();
    let done = Completion {
        id: ids[1],
        subject: "a".to_owned(),
        number: Some(MessageNumber(8)),
        after: Some(place(2)),
        details: "{}".to_owned(),
    };
    journal.complete(&[done]).await.unwrap();
    let later = NOW.plus(DAY);
    let third = begin(&[change("flags", "a")], later).await.unwrap();
    assert_eq!(
        begin(&[change("flags", "c"), change("flags", "d")], NOW).await,
        None
    );

    let all = journal.list(OWNER, i64::MAX, 10).await.unwrap();
    let kinds: Vec<_> = all.iter().map(|one| (&*one.kind, &*one.subject)).collect();
    assert_eq!(kinds, [("flags", "a"), ("move", "a"), ("move", "b")]);
    let page = journal.list(OWNER, all[0].id, 1).await.unwrap();
    assert_eq!(page, all[1..2]);
    let moved = &all[1];
    assert_eq!(
        (moved.state(), moved.number()),
        (State::Done, Some(MessageNumber(8)))
    );
    assert_eq!(
        (moved.before(), moved.after()),
        (Some(place(1)), Some(place(2)))
    );
    assert_eq!(all[2].state(), State::Begun);

    let subjects = async |since, after| {
        let subjects = journal.subjects(OWNER, since, after, 10);
        subjects.await.unwrap()
    };
    assert_eq!(subjects(NOW, "").await, ["a", "b"]);
    assert_eq!(subjects(NOW, "a").await, ["b"]);
    assert_eq!(subjects(later, "").await, ["a"]);
    journal
        .set_state(&[ids[0]], State::Undone, Some(&place(3)))
        .await
        .unwrap();
    assert_eq!(subjects(NOW, "").await, ["a"]);
    let undone = journal.of_subject(OWNER, "b", NOW).await.unwrap();
    assert_eq!(
        (undone[0].state(), undone[0].undone()),
        (State::Undone, Some(place(3)))
    );
    journal.cancel(&third).await.unwrap();
    assert_eq!(journal.of_subject(OWNER, "a", NOW).await.unwrap().len(), 1);

    directory.sweep(NOW.plus(RETENTION)).await.unwrap();
    assert!(journal.list(OWNER, i64::MAX, 10).await.unwrap().is_empty());
}

async fn bytes_are_limited_and_deleted_with_their_changes(fresh: Fresh) {
    let journal = &fresh.directory.grant_changes;
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &[]).await;
    let begin = async |change| {
        let changes = [change];
        let begun = journal.begin(OWNER, &changes, LIMITS, NOW);
        begun.await.unwrap()
    };
    let ids = begin(with_bytes("one", 60)).await.unwrap();
    assert_eq!(begin(with_bytes("two", 41)).await, None);
    assert!(begin(with_bytes("three", 40)).await.is_some());
    let chunk = async |key, number| journal.chunk(key, number).await.unwrap();
    assert_eq!(chunk("one", 1).await.as_deref(), Some(&b"one"[..]));
    assert_eq!(chunk("one", 2).await, None);
    journal.cancel(&ids).await.unwrap();
    assert_eq!(chunk("one", 0).await, None);
    assert!(begin(with_bytes("four", 60)).await.is_some());
}

both!(
    changes_are_recorded_completed_and_listed,
    bytes_are_limited_and_deleted_with_their_changes,
);
