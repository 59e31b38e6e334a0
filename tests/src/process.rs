//! What this process takes of the machine. The service of a test runs in the test's own process, so its clients count too.

use std::fs;

/// Open descriptors.
pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Resident memory, in KiB.
pub fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
        .unwrap();
    kib.parse().unwrap()
}
