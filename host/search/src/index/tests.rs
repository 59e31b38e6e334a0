use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;

use super::*;
use crate::writer::{Document, Participant};

const MEMORY: usize = 15_000_000;

/// Creates an index with some messages in two segments, one of which has a deleted message.
fn fill(folder: &Path) -> MailboxState {
    let index = Index::open(folder).unwrap();
    let mut state = MailboxState::new();
    state.set_folder(0, "INBOX");
    let mut writer = index.writer(MEMORY).unwrap();
    for uid in 1..=60 {
        add(&mut writer, uid);
        state.set(uid, 0, u32::try_from(uid).unwrap(), "");
        if uid % 30 == 0 {
            writer.commit().unwrap();
        }
    }
    writer.remove(7).unwrap();
    writer.commit().unwrap();
    state.remove(7);
    state
}

fn add(writer: &mut Writer, uid: u64) {
    try_add(writer, uid).unwrap();
}

fn try_add(writer: &mut Writer, uid: u64) -> Result<(), Error> {
    let subject = format!("Invoice {uid}");
    let text = format!(
        "The number is INV-{}-{uid}. {}",
        uid % 3,
        "Many more words follow here. ".repeat(20)
    );
    let document = Document {
        uid,
        arrival: 1000 + i64::try_from(uid % 10).unwrap(),
        subject: &subject,
        from: &[Participant {
            name: "Anna",
            address: "anna@example.com",
        }],
        text: &text,
        summary: &uid.to_be_bytes(),
        thread: ThreadKeys {
            message_id: uid << 50,
            references: vec![u64::MAX, 3, uid, 3],
            base_subject: 5,
            is_reply: uid.is_multiple_of(2),
        },
        ..Document::default()
    };
    writer.add(&document)
}

fn search(index: &Index, state: &MailboxState, query: &str) -> Result<(u32, Vec<u64>), Error> {
    let search = Search {
        query: &Query::parse(query).unwrap(),
        folders: &[0].into_iter().collect(),
        sort: Sort::Newest,
        order: Order::Folder,
        offset: 0,
        limit: 5,
    };
    let found = index.search(state, &search)?;
    for hit in &found.hits {
        assert_eq!(hit.summary, hit.uid.to_be_bytes());
        assert!(hit.snippet.text.starts_with("The number is INV-"));
    }
    Ok((
        found.total,
        found.hits.into_iter().map(|hit| hit.uid).collect(),
    ))
}

/// Panics if a search succeeds with a wrong result.
fn assert_not_wrong(index: &Index, state: &MailboxState) {
    let expected = |query: &str, total, uids: &[u64]| {
        if let Ok(result) = search(index, state, query) {
            assert_eq!(result, (total, uids.to_vec()), "{query}");
        }
    };
    expected("invoice", 59, &[60, 59, 58, 57, 56]);
    expected("inv-1", 19, &[58, 55, 52, 49, 46]);
    expected("\"anna\" 33", 1, &[33]);
    expected("from:example -follow", 0, &[]);
}

#[test]
fn searches_find_messages_in_all_segments() {
    let folder = tempfile::tempdir().unwrap();
    let state = fill(folder.path());
    let index = Index::open(folder.path()).unwrap();
    assert_not_wrong(&index, &state);
    assert_eq!(search(&index, &state, "7").unwrap().0, 0);
    assert_eq!(search(&index, &state, "").unwrap().0, 0);
    assert_eq!(search(&index, &state, "-is:unread").unwrap().0, 0);
    assert_eq!(search(&index, &state, "-absent").unwrap().0, 59);
    assert_eq!(index.uids().unwrap().len(), 59);
    assert_eq!(
        index.summaries(&[60, 7, 1]).unwrap(),
        [
            Some(60_u64.to_be_bytes().to_vec()),
            None,
            Some(1_u64.to_be_bytes().to_vec())
        ]
    );
    let keys = index.thread_keys().unwrap();
    let keys = keys.into_iter().find(|keys| keys.uid == 12).unwrap();
    assert_eq!(keys.arrival, 1002);
    let expected = ThreadKeys {
        message_id: 12 << 50,
        references: vec![u64::MAX, 3, 12, 3],
        base_subject: 5,
        is_reply: true,
    };
    assert_eq!(keys.keys, expected);
    let size = index.size().unwrap();
    assert!(size.index > 1000 && size.stored > 1000, "{size:?}");
    index.verify().unwrap();
}

#[test]
fn a_message_without_state_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = fill(folder.path());
    let index = Index::open(folder.path()).unwrap();
    state.remove(60);
    assert_eq!(
        search(&index, &state, "invoice").unwrap(),
        (58, vec![59, 58, 57, 56, 55])
    );
}

#[test]
fn a_message_that_is_added_again_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let state = fill(folder.path());
    let index = Index::open(folder.path()).unwrap();
    let mut writer = index.writer(MEMORY).unwrap();
    add(&mut writer, 5);
    add(&mut writer, 5);
    assert!(matches!(index.writer(MEMORY), Err(Error::Locked)));
    writer.commit().unwrap();
    assert_not_wrong(&index, &state);
    assert_eq!(
        index.summaries(&[5]).unwrap(),
        [Some(5_u64.to_be_bytes().to_vec())]
    );
}

#[test]
fn changes_without_a_commit_are_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let state = fill(folder.path());
    let index = Index::open(folder.path()).unwrap();
    let mut writer = index.writer(MEMORY).unwrap();
    add(&mut writer, 61);
    writer.remove(1).unwrap();
    drop(writer);
    assert_eq!(index.uids().unwrap().len(), 59);
    // The writer of the same index continues.
    let mut writer = index.writer(MEMORY).unwrap();
    writer.commit().unwrap();
    assert_not_wrong(&index, &state);
}

#[test]
fn many_small_commits_leave_few_segments() {
    let folder = tempfile::tempdir().unwrap();
    let index = Index::open(folder.path()).unwrap();
    let mut writer = index.writer(MEMORY).unwrap();
    for uid in 1..=60 {
        add(&mut writer, uid);
        writer.commit().unwrap();
        if uid % 4 == 0 {
            writer.remove(uid - 2).unwrap();
        }
    }
    writer.commit().unwrap();
    drop(writer);
    assert!(index.shared.segments().len() <= 10);
    assert_eq!(index.uids().unwrap().len(), 45);
    // Six files for each segment, and files with deleted messages.
    let files = fs::read_dir(folder.path()).unwrap().count();
    assert!(files <= 10 * 7 + 5, "{files}");
}

#[test]
fn an_optimized_index_has_one_segment() {
    let folder = tempfile::tempdir().unwrap();
    let state = fill(folder.path());
    let index = Index::open(folder.path()).unwrap();
    assert_eq!(index.shared.segments().len(), 2);
    let mut writer = index.writer(MEMORY).unwrap();
    writer.optimize().unwrap();
    assert_eq!(index.shared.segments().len(), 1);
    assert_not_wrong(&index, &state);
    // The files of the segment, two lists and two locks.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6 + 4);
}

#[test]
fn only_the_owner_can_access_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("a/b");
    fill(&folder);
    assert_eq!(
        fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
        0o700
    );
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(
            entry.metadata().unwrap().permissions().mode() & 0o777,
            0o600,
            "{entry:?}"
        );
    }
}

#[test]
fn a_damaged_file_never_leads_to_a_wrong_result() {
    let folder = tempfile::tempdir().unwrap();
    let state = fill(folder.path());
    let mut damaged = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let content = fs::read(&path).unwrap();
        for part in 0..12 {
            if content.is_empty() {
                continue;
            }
            let offset = (content.len() - 1) * part / 11;
            let mut changed = content.clone();
            changed[offset] ^= 1 << (part % 8);
            fs::write(&path, &changed).unwrap();
            match Index::open(folder.path()) {
                Ok(index) => assert_not_wrong(&index, &state),
                Err(Error::Damaged(_)) => damaged += 1,
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
        for length in [0, content.len() / 2] {
            fs::write(&path, &content[..length]).unwrap();
            if let Ok(index) = Index::open(folder.path()) {
                assert_not_wrong(&index, &state);
            }
        }
        if !path.ends_with("meta.json") {
            fs::remove_file(&path).unwrap();
            if let Ok(index) = Index::open(folder.path()) {
                assert_not_wrong(&index, &state);
            }
        }
        fs::write(&path, &content).unwrap();
    }
    assert!(damaged > 150, "{damaged}");
    // Without its list of segments, an index is empty. The caller sees that all messages are missing.
    fs::remove_file(folder.path().join("meta.json")).unwrap();
    assert!(
        Index::open(folder.path())
            .unwrap()
            .uids()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_full_disk_is_an_error_and_the_index_can_be_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let state = fill(folder.path());
    for free in [0, 10, 100, 1000, 3000, 10_000] {
        let index = Index::open(folder.path()).unwrap();
        index.files().free.store(free, Ordering::Relaxed);
        let result = index.writer(MEMORY).and_then(|mut writer| {
            for uid in 100..200 {
                try_add(&mut writer, uid)?;
            }
            writer.commit()
        });
        match result {
            Err(Error::Io(error)) => assert_eq!(error.kind(), std::io::ErrorKind::StorageFull),
            other => panic!("{free}: {other:?}"),
        }
        assert_not_wrong(&index, &state);
        drop(index);
        let index = Index::open(folder.path()).unwrap();
        assert_not_wrong(&index, &state);
        let mut writer = index.writer(MEMORY).unwrap();
        add(&mut writer, 60);
        writer.commit().unwrap();
        assert_not_wrong(&index, &state);
    }
}
