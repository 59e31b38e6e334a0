//! Reads files that contain a secret: keys, client secrets, passwords of databases, private keys of
//! TLS. Refuses a file that other users can read or change.
//!
//! The rule is that of PostgreSQL for private keys. If root owns the file, its group can read the
//! file, because the operator gives such a file to the group of the service. If the service's user
//! owns the file, only the owner can read it, because the group of such a file is seldom chosen on
//! purpose.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::geteuid;
use zeroize::Zeroizing;

use crate::error::StartError;

/// Maximum size of a file in bytes. It is much larger than a key, because a file with a private key
/// can also contain certificates.
const LARGEST: u64 = 256 * 1024;

const ROOT: u32 = 0;
/// The mode bits that allow the group to write, and other users to do anything.
const OPEN: u32 = 0o027;
/// The mode bits that allow the group to do anything.
const GROUP: u32 = 0o070;

/// Returns the id of the user of this process.
#[must_use]
pub fn current_user() -> u32 {
    geteuid().as_raw()
}

/// Returns the content of a file. `what` describes the file in errors, for example `the key file`.
///
/// # Errors
/// Returns an error if the file cannot be read, or if other users can read or change it.
pub fn read(what: &str, path: &Path) -> Result<Zeroizing<Vec<u8>>, StartError> {
    read_as(what, path, current_user())
}

/// Works like [`read`] for a service that runs as the user with the id `user`.
///
/// # Errors
/// Returns an error if the file cannot be read, or if other users can read or change it.
pub fn read_as(what: &str, path: &Path, user: u32) -> Result<Zeroizing<Vec<u8>>, StartError> {
    let unreadable = |e| StartError::new(format!("cannot read {what} {}: {e}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    check(what, path, &metadata, user)?;
    // Allocate the full capacity before the first read. A buffer that grows later would leave
    // copies of the secret in memory.
    let capacity = usize::try_from(metadata.len().min(LARGEST)).unwrap_or(0) + 1;
    let mut content = Zeroizing::new(Vec::with_capacity(capacity));
    file.take(LARGEST)
        .read_to_end(&mut content)
        .map_err(unreadable)?;
    Ok(content)
}

/// Works like [`read`] for a file with text.
///
/// # Errors
/// Returns an error if the file cannot be read, contains no text, or if other users can read or
/// change it.
pub fn read_text(what: &str, path: &Path) -> Result<Zeroizing<String>, StartError> {
    read_text_as(what, path, current_user())
}

/// Works like [`read_as`] for a file with text.
///
/// # Errors
/// Returns an error if the file cannot be read, contains no text, or if other users can read or
/// change it.
pub fn read_text_as(what: &str, path: &Path, user: u32) -> Result<Zeroizing<String>, StartError> {
    let content = read_as(what, path, user)?;
    // `to_owned` allocates the full capacity at once, so it leaves no other copies of the secret.
    let text = std::str::from_utf8(&content)
        .map_err(|_| StartError::new(format!("{what} {} is not valid UTF-8", path.display())))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Checks the owner and the mode of a file. Only root and the user with the id `user` can change
/// the file. Only they, and the group of a file that root owns, can read the file.
///
/// # Errors
/// Returns an error with the file and a remedy.
pub fn check(what: &str, path: &Path, metadata: &Metadata, user: u32) -> Result<(), StartError> {
    private(metadata.mode(), metadata.uid(), user)
        .map_err(|problem| StartError::new(format!("{what} {} {problem}", path.display())))
}

/// Checks the mode and the owner of a file. The error is a phrase that follows the path of the
/// file.
fn private(mode: u32, owner: u32, user: u32) -> Result<(), String> {
    if owner != user && owner != ROOT {
        return Err(format!(
            "belongs to another user (uid {owner}), who can read and replace it; it must belong to the service's user (uid {user}) or root"
        ));
    }
    let mode = mode & 0o777;
    if mode & OPEN != 0 || (owner != ROOT && mode & GROUP != 0) {
        return Err(format!(
            "is readable or writable by other users (mode {mode:03o}); make it private with chmod 600, or give it to root and the group of the service with chmod 640"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: u32 = 999;

    #[test]
    fn a_file_of_root_can_be_readable_for_its_group() {
        for mode in [0o640, 0o440, 0o600, 0o400] {
            assert_eq!(private(0o100_000 | mode, ROOT, SERVICE), Ok(()), "{mode:o}");
            assert_eq!(private(0o100_000 | mode, ROOT, ROOT), Ok(()), "{mode:o}");
        }
        for mode in [0o644, 0o604, 0o660, 0o620, 0o642, 0o666, 0o641] {
            let error = private(0o100_000 | mode, ROOT, SERVICE).unwrap_err();
            assert!(error.contains("chmod 640"), "{mode:o}: {error}");
        }
    }

    #[test]
    fn a_file_of_the_service_must_be_private() {
        for mode in [0o600, 0o400] {
            assert_eq!(private(mode, SERVICE, SERVICE), Ok(()), "{mode:o}");
        }
        for mode in [0o640, 0o644, 0o604, 0o620] {
            let error = private(mode, SERVICE, SERVICE).unwrap_err();
            assert!(error.contains("chmod 600"), "{mode:o}: {error}");
        }
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let error = private(0o100_600, 1001, SERVICE).unwrap_err();
        assert!(error.contains("uid 1001"), "{error}");
        assert!(private(0o100_600, 1001, ROOT).is_err(), "for root too");
    }
}
