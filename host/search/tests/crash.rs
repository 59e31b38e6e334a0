//! Kills a process that writes to an index.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_search::{Document, FolderSet, Index, MailboxState, Order, Query, Search, Sort};

/// The folder of the index, in the process that is killed.
const FOLDER: &str = "LATCHMAIL_TEST_INDEX";

/// Adds messages and removes some, with a commit after each tenth. Ends only if it is killed.
fn write(folder: &Path) {
    let index = Index::open(folder).unwrap();
    let mut writer = index.writer(15_000_000).unwrap();
    for uid in index
        .numbers()
        .unwrap()
        .into_iter()
        .max()
        .unwrap_or_default()
        .0
        + 1..
    {
        let text = format!("common number{uid} {}", "text ".repeat(500));
        writer
            .add(&Document {
                number: MessageNumber(uid),
                text: &text,
                summary: &uid.to_be_bytes(),
                ..Document::default()
            })
            .unwrap();
        if uid % 100 == 0 {
            writer.remove(MessageNumber(uid - 50)).unwrap();
        }
        if uid % 10 == 0 {
            writer.commit().unwrap();
        }
    }
}

#[test]
fn long_a_killed_writer_leaves_the_last_commit() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        write(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut messages = 0;
    for round in 0..20_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "long_a_killed_writer_leaves_the_last_commit"])
            .env(FOLDER, folder.path())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(50 + round * 7919 % 400));
        child.kill().unwrap();
        child.wait().unwrap();

        let index = Index::open(folder.path()).unwrap();
        let uids = index.numbers().unwrap();
        let last = uids.iter().copied().max().unwrap_or_default().0;
        assert_eq!(last % 10, 0, "a commit is visible completely or not at all");
        assert_eq!(uids.len() as u64, last - last / 100);
        assert!(last >= messages);
        messages = last;
        let mut state = MailboxState::new();
        state.set_folder(0, "INBOX");
        for &uid in &uids {
            state.set(uid, 0, Uid(u32::try_from(uid.0).unwrap()), "");
        }
        for (query, total) in [
            ("common".to_owned(), uids.len()),
            (format!("number{last} "), 1.min(uids.len())),
        ] {
            let folders: FolderSet = [0].into_iter().collect();
            let query = Query::parse(&query).unwrap();
            let search = Search {
                query: &query,
                folders: &folders,
                sort: Sort::Newest,
                order: Order::Folder,
                offset: 0,
                limit: 1,
                cancelled: &AtomicBool::new(false),
            };
            let found = index.search(&state, &search).unwrap();
            assert_eq!(found.total as usize, total);
            assert!(found.hits.iter().all(|hit| hit.number.0 == last));
        }
    }
    assert!(messages > 100, "{messages}");
}
