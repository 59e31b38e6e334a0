//! The benches that are programs of their own.

use std::path::Path;
use std::process::Command;

#[test]
fn the_bench_of_feeds_finds_each_defect_of_a_fake_feed() {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/feeds/run.py");
    let mut command = Command::new("python3");
    // Without `-B`, Python would write caches into the source tree.
    command.arg("-B").arg(bench).arg("--self-test");
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{output:?}");
}
