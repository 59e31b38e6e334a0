use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use latchmail_core::message_number::{MessageNumber, Uid};

use super::*;
use crate::writer::{Document, Participant};

const MEMORY: usize = 15_000_000;

/// Creates an index with some messages in two segments, one of which has a deleted message.
fn fill(folder: &Path) -> MailboxState {
    let index = Index::open(folder).unwrap();
    let mut state = MailboxState::new();
    state.set_folder(0, "INBOX");
    let mut writer = index.writer(MEMORY).unwrap();
    for number in 1..=60 {
        add(&mut writer, number);
        state.set(
            MessageNumber(number),
            0,
            Uid(u32::try_from(number).unwrap()),
            "",
        );
        if number % 30 == 0 {
            writer.commit().unwrap();
        }
    }
    writer.remove(MessageNumber(7)).unwrap();
    writer.commit().unwrap();
    state.remove(MessageNumber(7));
    state
}

fn add(writer: &mut Writer, number: u64) {
    try_add(writer, number).unwrap();
}

fn try_add(writer: &mut Writer, number: u64) -> Result<(), Error> {
    let subject = format!("Invoice {number}");
    let text = format!(
        "The number is INV-{}-{number}. {}",
        number % 3,
        "Many more words follow here. ".repeat(20)
    );
    let document = Document {
        number: MessageNumber(number),
        arrival: 1000 + i64::try_from(number % 10).unwrap(),
        subject: &subject,
        from: &[Participant {
            name: "Anna",
            address: "anna@example.com",
        }],
        text: &text,
        summary: &number.to_be_bytes(),
        thread: ThreadKeys {
            message_id: number << 50,
            references: vec![u64::MAX, 3, number, 3],
            base_subject: 5,
            untagged_subject: 6,
            is_reply: number.is_multiple_of(2),
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
        cancelled: &AtomicBool::new(false),
    };
    let found = index.search(state, &search)?;
    for hit in &found.hits {
        assert_eq!(hit.summary, hit.number.0.to_be_bytes());
        assert!(hit.snippet.text.starts_with("The number is INV-"));
    }
    Ok((
        found.total,
        found.hits.into_iter().map(|hit| hit.number.0).collect(),
    ))
}

/// Panics if a search succeeds with a wrong result.
fn assert_not_wrong(index: &Index, state: &MailboxState) {
    let expected = |query: &str, total, numbers: &[u64]| {
        if let Ok(result) = search(index, state, query) {
            assert_eq!(result, (total, numbers.to_vec()), "{query}");
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
    assert_eq!(index.numbers().unwrap().len(), 59);
    assert_eq!(
        index.summaries(&[60, 7, 1].map(MessageNumber)).unwrap(),
        [
            Some(60_u64.to_be_bytes().to_vec()),
            None,
            Some(1_u64.to_be_bytes().to_vec())
        ]
    );
    let keys = index.thread_keys().unwrap();
    let keys = keys.into_iter().find(|keys| keys.number.0 == 12).unwrap();
    assert_eq!(keys.arrival, 1002);
    let expected = ThreadKeys {
        message_id: 12 << 50,
        references: vec![u64::MAX, 3, 12, 3],
        base_subject: 5,
        untagged_subject: 6,
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
    state.remove(MessageNumber(60));
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
        index.summaries(&[MessageNumber(5)]).unwrap(),
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
    writer.remove(MessageNumber(1)).unwrap();
    drop(writer);
    assert_eq!(index.numbers().unwrap().len(), 59);
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
    for number in 1..=60 {
        add(&mut writer, number);
        writer.commit().unwrap();
        if number % 4 == 0 {
            writer.remove(MessageNumber(number - 2)).unwrap();
        }
    }
    writer.commit().unwrap();
    drop(writer);
    assert!(index.shared.segments().len() <= 10);
    assert_eq!(index.numbers().unwrap().len(), 45);
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
    // Without its list of segments, an index is empty. The caller sees that all messages are
    // missing.
    fs::remove_file(folder.path().join("meta.json")).unwrap();
    assert!(
        Index::open(folder.path())
            .unwrap()
            .numbers()
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
            for number in 100..200 {
                try_add(&mut writer, number)?;
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

/// Creates an index of messages with a folder, a text and another text each. The number of a
/// message is its position, from 1.
fn index_of(folder: &Path, messages: &[(u16, &str, &str)]) -> (Index, MailboxState) {
    let index = Index::open(folder).unwrap();
    let mut state = MailboxState::new();
    let mut writer = index.writer(MEMORY).unwrap();
    for (number, (folder, text, other_text)) in (1..).zip(messages) {
        let document = Document {
            number: MessageNumber(number),
            text,
            other_text,
            ..Document::default()
        };
        writer.add(&document).unwrap();
        state.set_folder(*folder, &folder.to_string());
        state.set(
            MessageNumber(number),
            *folder,
            Uid(u32::try_from(number).unwrap()),
            "",
        );
    }
    writer.commit().unwrap();
    (index, state)
}

fn in_first_folder<'a>(query: &'a Query, folders: &'a FolderSet, sort: Sort) -> Search<'a> {
    static NOT_CANCELLED: AtomicBool = AtomicBool::new(false);
    Search {
        query,
        folders,
        sort,
        order: Order::Folder,
        offset: 0,
        limit: 5,
        cancelled: &NOT_CANCELLED,
    }
}

#[test]
fn the_relevance_does_not_depend_on_folders_that_are_not_searched() {
    let query = Query::parse("alpha OR beta OR gam").unwrap();
    let folders: FolderSet = [0].into_iter().collect();
    let search = in_first_folder(&query, &folders, Sort::Relevance);
    let order = |hidden: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut messages = vec![
            (0, "alpha and some words", ""),
            (0, "beta and some other words", ""),
            (0, "gamma and some", ""),
            (0, "nothing", ""),
        ];
        messages.extend([(1, hidden, ""); 20]);
        let (index, state) = index_of(folder.path(), &messages);
        let found = index.search(&state, &search).unwrap();
        found
            .hits
            .iter()
            .map(|hit| hit.number.0)
            .collect::<Vec<_>>()
    };
    let expected = order("nothing");
    assert_eq!(expected.len(), 3);
    let long = "word ".repeat(1000);
    for hidden in ["alpha", "beta", "gamma", "alpha beta", "", &long] {
        assert_eq!(order(hidden), expected, "{hidden:.10}");
    }
}

#[test]
fn no_phrase_spans_the_two_texts_of_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let messages = [(0, "the last", "first words"), (0, "the last first", "")];
    let (index, state) = index_of(folder.path(), &messages);
    let folders: FolderSet = [0].into_iter().collect();
    for (query, expected) in [
        ("\"last first\"", &[2][..]),
        ("\"first words\"", &[1]),
        ("last first", &[2, 1]),
    ] {
        let query = Query::parse(query).unwrap();
        let search = in_first_folder(&query, &folders, Sort::Newest);
        let found = index.search(&state, &search).unwrap();
        let numbers: Vec<_> = found.hits.iter().map(|hit| hit.number.0).collect();
        assert_eq!(numbers, expected, "{query:?}");
    }
}

#[test]
fn a_stored_text_ends_with_a_complete_word() {
    for length in [65_524, 65_530, 65_536] {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("{} wonderland {}", "x".repeat(length), "y ".repeat(100));
        let (index, state) = index_of(folder.path(), &[(0, &text, ""), (0, "", &text)]);
        let folders: FolderSet = [0].into_iter().collect();
        let query = Query::parse("wond").unwrap();
        let search = in_first_folder(&query, &folders, Sort::Newest);
        for hit in index.search(&state, &search).unwrap().hits {
            for matched in &hit.snippet.matches {
                assert_eq!(matched.len(), "wonderland".len(), "{length}");
            }
        }
    }
}

#[test]
fn a_cancelled_search_ends() {
    let folder = tempfile::tempdir().unwrap();
    let state = fill(folder.path());
    let index = Index::open(folder.path()).unwrap();
    let query = Query::parse("invoice").unwrap();
    let folders: FolderSet = [0].into_iter().collect();
    let search = Search {
        cancelled: &AtomicBool::new(true),
        ..in_first_folder(&query, &folders, Sort::Relevance)
    };
    let cancelled = index.search(&state, &search);
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
}
