//! Runs this test as a program with the library, and compares the counters with known numbers.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, as intended")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;

const ALLOCATIONS: u64 = 10_000;
const COPIES: u64 = 1_000;
const COPY_LENGTH: u64 = 4_096;

/// Returns the allocations and the copied bytes so far.
fn read(file: &Path) -> [u64; 2] {
    let bytes = std::fs::read(file).unwrap();
    let (counters, _) = bytes.as_chunks();
    [
        u64::from_ne_bytes(counters[0]),
        u64::from_ne_bytes(counters[1]),
    ]
}

/// Returns the library, which cargo builds next to the folder of this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    folder.join("liblatchmail_bench_counters.so")
}

#[test]
fn the_library_counts_allocations_and_copied_bytes() {
    if let Some(file) = std::env::var_os("BENCH_COUNTERS") {
        return count(Path::new(&file));
    }
    let file = std::env::temp_dir().join(format!("lm-counters-{}", std::process::id()));
    std::fs::write(&file, [0; 16]).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--test-threads=1", "--nocapture"])
        .env("LD_PRELOAD", library())
        .env("BENCH_COUNTERS", &file)
        .output()
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Allocates and copies in the process with the library.
fn count(file: &Path) {
    let before = read(file);
    for size in 0..ALLOCATIONS {
        drop(black_box(Vec::<u8>::with_capacity(
            usize::try_from(size).unwrap() + 1,
        )));
    }
    let after_allocations = read(file);
    let from = vec![1_u8; usize::try_from(COPY_LENGTH).unwrap()];
    let mut to = vec![0_u8; from.len()];
    for _ in 0..COPIES {
        black_box(&mut to).copy_from_slice(black_box(&from));
    }
    let after_copies = read(file);
    // Reading the file and the vectors of the test allocate and copy a little too.
    let allocations = after_allocations[0] - before[0];
    assert!(
        (ALLOCATIONS..ALLOCATIONS + 20).contains(&allocations),
        "{allocations}"
    );
    let copied = after_copies[1] - after_allocations[1];
    let expected = COPIES * COPY_LENGTH;
    assert!((expected..expected + 1_000).contains(&copied), "{copied}");
}
