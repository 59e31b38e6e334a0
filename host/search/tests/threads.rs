//! This file has one test only, because the test counts the threads of the process.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fs;
use std::time::{Duration, Instant};

use latchmail_core::message_number::MessageNumber;
use latchmail_search::{Document, Index};

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn no_thread_remains_after_a_writer_was_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let before = threads();
    let index = Index::open(folder.path()).unwrap();
    assert_eq!(threads(), before);
    let mut writer = index.writer(15_000_000).unwrap();
    for uid in 1..50 {
        writer
            .add(&Document {
                number: MessageNumber(uid),
                text: "some text",
                ..Document::default()
            })
            .unwrap();
        writer.commit().unwrap();
    }
    assert!(threads() > before);
    drop(writer);
    // The kernel needs a moment to remove a thread that has ended.
    let start = Instant::now();
    while threads() > before && start.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(threads(), before);
}
