//! Reads the service's key file, or creates the file if it does not exist.
//!
//! Each line contains one key in standard base64. A key consists of 32 random bytes. The first key
//! is the current key. The service uses the keys in other lines only to decrypt old data and to
//! verify old tokens. An operator rotates keys by adding a line at the top. Lines that start with
//! `#` are comments.
//!
//! The service does not encrypt or sign with these keys directly. [`crate::keyring`] derives other
//! keys from the keys in the file.

mod edit;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

pub use self::edit::KeyFile;
use crate::error::StartError;
use crate::{secret_file, secrets};

/// The bytes of a key.
pub type Key = Zeroizing<[u8; 32]>;

/// The name of the key file in error messages.
const NAME: &str = "the key file";

/// The attributes of a file that change when the file is replaced or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the current attributes of the file `path`, or `None` if the file does not exist or
    /// is not accessible.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// Returns the keys in the file `path`, with the current key first. Creates a missing file with one
/// new key.
///
/// # Errors
/// Returns an error if the file cannot be read or created, is owned or readable by another user, or
/// contains an invalid line.
pub fn load(path: &Path) -> Result<Vec<Key>, StartError> {
    if let Err(e) = fs::metadata(path)
        && e.kind() == ErrorKind::NotFound
    {
        let key = secrets::random::<32>().map_err(|e| sentence("cannot create", path, &e))?;
        create(path, &[key])?;
    }
    read_keys(path)
}

/// Works like [`load`], but does not create a missing file.
///
/// # Errors
/// Returns an error if the file cannot be read, is owned or readable by another user, or contains
/// an invalid line.
pub fn read_keys(path: &Path) -> Result<Vec<Key>, StartError> {
    parse(&secret_file::read_text(NAME, path)?)
        .map_err(|problem| StartError::new(format!("the key file {} {problem}", path.display())))
}

/// Returns the number of keys in the file `path`. The service runs as the user with the id `user`.
/// Unlike [`load`], never creates the file.
///
/// # Errors
/// Returns an error if the file cannot be read, is owned or readable by another user, or contains
/// an invalid line.
pub fn count(path: &Path, user: u32) -> Result<usize, StartError> {
    Ok(load_as(path, user)?.len())
}

/// Returns the keys in the file `path`, with the current key first. The service runs as the user
/// with the id `user`. Unlike [`load`], never creates the file.
///
/// # Errors
/// Returns an error if the file cannot be read, is owned or readable by another user, or contains
/// an invalid line.
pub fn load_as(path: &Path, user: u32) -> Result<Vec<Key>, StartError> {
    parse(&secret_file::read_text_as(NAME, path, user)?)
        .map_err(|problem| StartError::new(format!("the key file {} {problem}", path.display())))
}

fn sentence(what: &str, path: &Path, error: &dyn std::fmt::Display) -> StartError {
    StartError::new(format!("{what} {NAME} {}: {error}", path.display()))
}

/// Creates the file `path` with these keys. Other processes never see a partial file. Does not
/// replace an existing file.
///
/// # Errors
/// Returns an error if the file cannot be created.
pub fn create(path: &Path, keys: &[Key]) -> Result<(), StartError> {
    make(path, keys).map_err(|e| sentence("cannot create", path, &e))
}

fn make(path: &Path, keys: &[Key]) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let text = Zeroizing::new(format!(
        "# The key of Latchmail. A person who has the key can sign in to every account and read\n\
         # stored mail credentials. Keep it secret. The first key is the current one. Further keys\n\
         # still open data that they sealed and verify tokens that they signed.\n{}",
        lines(keys).as_str()
    ));
    let draft = draft_of(path)?;
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        // Unlike a rename, a hard link does not replace an existing file.
        .and_then(|()| fs::hard_link(&draft, path));
    let _ = fs::remove_file(&draft);
    match written {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => Ok(other?),
    }
}

fn draft_of(path: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let mut name = path
        .file_name()
        .ok_or("the path has no file name")?
        .to_os_string();
    name.push(".");
    name.push(secrets::id()?);
    Ok(path.with_file_name(name))
}

/// Returns a line of the file for each key.
fn lines(keys: &[Key]) -> Zeroizing<String> {
    // The base64 text of a key has 44 characters. Allocate the full capacity at once: a buffer that
    // grows would leave copies of the secrets in memory.
    let mut text = Zeroizing::new(String::with_capacity(45 * keys.len()));
    for key in keys {
        STANDARD.encode_string(key.as_slice(), &mut text);
        text.push('\n');
    }
    text
}

/// Returns the keys in the text of a key file.
///
/// # Errors
/// Returns an error if the text contains an invalid line or no key. The error text contains no text
/// from the file.
pub fn parse_keys(text: &str) -> Result<Vec<Key>, StartError> {
    parse(text).map_err(|problem| StartError::new(format!("the text {problem}")))
}

/// Parses the text of a key file. The caller writes the words "the key file" and the path before
/// the returned error text. The error text contains no text from the file.
fn parse(text: &str) -> Result<Vec<Key>, String> {
    let mut keys = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut key = Key::default();
        let length = STANDARD.decode_slice(line, key.as_mut_slice());
        if length != Ok(key.len()) {
            return Err(format!(
                "has a line that is not 32 bytes in base64: line {}",
                number + 1
            ));
        }
        keys.push(key);
    }
    if keys.is_empty() {
        return Err("contains no key; delete the file to create a new key".into());
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A temporary folder that is removed at the end of the test.
    pub(super) struct Folder(PathBuf);

    impl Folder {
        pub(super) fn new() -> Self {
            let path =
                std::env::temp_dir().join(format!("latchmail-key-{}", secrets::id().unwrap()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        pub(super) fn file(&self, mode: u32, text: &str) -> PathBuf {
            let path = self.0.join("key");
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_missing_key_is_made_for_its_owner_alone_with_its_folders() {
        let folder = Folder::new();
        let path = folder.0.join("a/b/latchmail.key");
        let made = load(&path).unwrap();
        assert_eq!(made.len(), 1);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "the draft is gone"
        );
        assert_eq!(
            load(&path).unwrap(),
            made,
            "a second start reads the same key"
        );
    }

    #[test]
    fn counting_keys_does_not_create_a_missing_file() {
        let folder = Folder::new();
        let path = folder.file(0o600, &STANDARD.encode([7; 32]));
        let owner = fs::metadata(&path).unwrap().uid();
        assert_eq!(count(&path, owner).unwrap(), 1);
        let missing = folder.0.join("missing");
        assert!(count(&missing, owner).is_err());
        assert!(!missing.exists());
    }

    #[test]
    fn a_key_that_is_there_is_never_replaced() {
        let folder = Folder::new();
        let first = STANDARD.encode([7; 32]);
        let path = folder.file(0o600, &first);
        create(&path, &[Key::new([8; 32])]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), first);
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        for mode in [0o644, 0o604, 0o620] {
            let folder = Folder::new();
            let path = folder.file(mode, &STANDARD.encode([7; 32]));
            let error = load(&path).unwrap_err().to_string();
            assert!(error.starts_with("the key file "), "{mode:o}: {error}");
            assert!(error.contains("chmod 600"), "{mode:o}: {error}");
        }
    }

    #[test]
    fn a_key_that_belongs_to_another_user_is_refused() {
        if rustix::process::geteuid().is_root() {
            let folder = Folder::new();
            let path = folder.file(0o600, &STANDARD.encode([7; 32]));
            std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
            assert!(
                load(&path)
                    .unwrap_err()
                    .to_string()
                    .contains("another user")
            );
        }
    }

    #[test]
    fn the_first_line_is_the_current_key_and_comments_are_skipped() {
        let text = format!(
            "# made today\n\n{}\n  {}  \n# end",
            STANDARD.encode([1; 32]),
            STANDARD.encode([2; 32])
        );
        let keys = parse(&text).unwrap();
        assert_eq!(keys.iter().map(|k| k[0]).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn anything_but_keys_is_refused_without_being_quoted() {
        for text in [
            "",
            "# nothing",
            "secretsecret",
            &STANDARD.encode([1; 31]),
            &STANDARD.encode([1; 33]),
            "secret secret",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
