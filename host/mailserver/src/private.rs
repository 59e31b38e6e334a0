//! Private files.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a file that only its owner can read.
///
/// # Errors
/// Returns the error of the operating system.
pub fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    let mut opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)?;
    writeln!(opened, "{text}")
}
