//! Changes the key file: adds, removes and reorders keys. Keeps comments, the owner and the mode of
//! the file.
//!
//! Each change replaces the file in one step, so that other processes never read a partial file. A
//! change that was interrupted leaves the previous file and a file with the suffix `.new`, which
//! the next change replaces.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use zeroize::Zeroizing;

use super::{Key, NAME, lines, parse, sentence};
use crate::error::StartError;
use crate::{secret_file, secrets};

/// The key file, locked for changes. Only one process on this machine can have the lock.
#[derive(Debug)]
pub struct KeyFile {
    /// The path without symbolic links.
    path: PathBuf,
    /// The lock on the folder of the file. The file itself is not locked, because each change
    /// replaces the file.
    _lock: File,
}

impl KeyFile {
    /// Locks the key file `path` for changes.
    ///
    /// # Errors
    /// Returns an error if the file does not exist, or if another process is changing the file.
    pub fn lock(path: &Path) -> Result<Self, StartError> {
        let path = fs::canonicalize(path).map_err(|e| sentence("cannot find", path, &e))?;
        let locked = File::open(folder(&path))
            .and_then(|folder| {
                flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
                Ok(folder)
            })
            .map_err(|e| sentence("another process may be changing", &path, &e))?;
        Ok(Self {
            path,
            _lock: locked,
        })
    }

    /// Returns the keys in the file, in the order of the lines. Root can read the file of every
    /// user.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is readable by other users, or contains an
    /// invalid line.
    pub fn keys(&self) -> Result<Vec<Key>, StartError> {
        Self::read(&self.path)
    }

    /// Returns the keys in the file `path` without a lock, as [`KeyFile::keys`] does.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is readable by other users, or contains an
    /// invalid line.
    pub fn read(path: &Path) -> Result<Vec<Key>, StartError> {
        parse(&text(path)?).map_err(|problem| {
            StartError::new(format!("the key file {} {problem}", path.display()))
        })
    }

    /// Generates a key and adds the key at the end of the file. Returns the key.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or replaced.
    pub fn append_new(&self) -> Result<Key, StartError> {
        let key = secrets::random::<32>().map_err(|e| sentence("cannot change", &self.path, &e))?;
        self.append(std::slice::from_ref(&key))?;
        Ok(key)
    }

    /// Adds keys at the end of the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or replaced.
    pub fn append(&self, keys: &[Key]) -> Result<(), StartError> {
        let before = text(&self.path)?;
        let separator = if before.is_empty() || before.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        self.replace(&Zeroizing::new(
            [before.as_str(), separator, &lines(keys)].concat(),
        ))
    }

    /// Returns the text of the file `path`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is readable by other users.
    pub fn export(path: &Path) -> Result<Zeroizing<String>, StartError> {
        text(path)
    }

    /// Moves a key before all other keys. Does nothing if the key is already the first key.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or replaced, or does not contain the key.
    pub fn move_to_top(&self, key: &Key) -> Result<(), StartError> {
        if self.keys()?.first() == Some(key) {
            return Ok(());
        }
        let before = text(&self.path)?;
        let mut all: Vec<&str> = before.lines().collect();
        let is_key = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
        let (Some(first), Some(index)) = (
            all.iter().position(is_key),
            all.iter().position(|line| is_line_of(line, key)),
        ) else {
            return Err(sentence(
                "cannot change",
                &self.path,
                &"the key is not in it",
            ));
        };
        all[first..=index].rotate_right(1);
        self.write_lines(&all)
    }

    /// Removes all lines that contain `key`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or replaced, or contains no other key.
    pub fn remove(&self, key: &Key) -> Result<(), StartError> {
        if self.keys()?.iter().all(|other| other == key) {
            return Err(sentence(
                "cannot change",
                &self.path,
                &"it contains no other key",
            ));
        }
        let before = text(&self.path)?;
        let mut all: Vec<&str> = before.lines().collect();
        all.retain(|line| !is_line_of(line, key));
        self.write_lines(&all)
    }

    fn write_lines(&self, lines: &[&str]) -> Result<(), StartError> {
        let size = lines.iter().map(|line| line.len() + 1).sum();
        // Allocate the full capacity at once. A buffer that grows would leave copies of the secrets
        // in memory.
        let mut text = Zeroizing::new(String::with_capacity(size));
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        self.replace(&text)
    }

    fn replace(&self, text: &str) -> Result<(), StartError> {
        self.try_replace(text)
            .map_err(|e| sentence("cannot replace", &self.path, &e))
    }

    fn try_replace(&self, text: &str) -> std::io::Result<()> {
        let metadata = fs::metadata(&self.path)?;
        let mut draft = self.path.clone().into_os_string();
        draft.push(".new");
        let draft = PathBuf::from(draft);
        match fs::remove_file(&draft) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)?;
        let is_own = (metadata.uid(), metadata.gid()) == owner(&file)?;
        if !is_own {
            chown(&draft, Some(metadata.uid()), Some(metadata.gid()))?;
        }
        file.set_permissions(fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)?;
        File::open(folder(&self.path))?.sync_all()
    }
}

/// Returns the text of the key file. Root can read the file of every user.
fn text(path: &Path) -> Result<Zeroizing<String>, StartError> {
    let mut user = geteuid().as_raw();
    if geteuid().is_root() {
        let metadata = fs::metadata(path).map_err(|e| sentence("cannot read", path, &e))?;
        user = metadata.uid();
    }
    secret_file::read_text_as(NAME, path, user)
}

fn owner(file: &File) -> std::io::Result<(u32, u32)> {
    let metadata = file.metadata()?;
    Ok((metadata.uid(), metadata.gid()))
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Returns `true` if a line of the file contains this key.
fn is_line_of(line: &str, key: &Key) -> bool {
    let mut found = Key::default();
    STANDARD.decode_slice(line.trim(), found.as_mut_slice()) == Ok(found.len()) && found == *key
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::super::{Stamp, load};
    use super::*;

    fn line(byte: u8) -> String {
        STANDARD.encode([byte; 32])
    }

    fn key(byte: u8) -> Key {
        Key::new([byte; 32])
    }

    #[test]
    fn keys_are_added_at_the_end_moved_to_the_top_and_removed_and_comments_stay() {
        let folder = Folder::new();
        let path = folder.file(0o600, &format!("# one\n\n{}\n# two\n{}", line(1), line(2)));
        let before = Stamp::of(&path);
        let file = KeyFile::lock(&path).unwrap();
        let new = file.append_new().unwrap();
        assert_ne!(Stamp::of(&path), before);
        assert_eq!(load(&path).unwrap(), [key(1), key(2), new.clone()]);
        file.move_to_top(&new).unwrap();
        file.move_to_top(&new).unwrap();
        file.remove(&key(2)).unwrap();
        assert_eq!(load(&path).unwrap(), [new.clone(), key(1)]);
        let text = fs::read_to_string(&path).unwrap();
        let new_line = STANDARD.encode(new.as_slice());
        assert_eq!(text, format!("# one\n\n{new_line}\n{}\n# two\n", line(1)));
        file.remove(&key(1)).unwrap();
        assert!(file.remove(&new).is_err(), "the last key");
        assert!(file.move_to_top(&key(1)).is_err(), "a missing key");
        assert_eq!(load(&path).unwrap(), [new]);
    }

    #[test]
    fn a_change_keeps_the_owner_and_the_mode_and_follows_a_symbolic_link() {
        let folder = Folder::new();
        let path = folder.file(0o400, &line(1));
        if geteuid().is_root() {
            chown(&path, Some(1), Some(2)).unwrap();
        }
        let before = fs::metadata(&path).unwrap();
        let link = path.with_file_name("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        // A change that was interrupted.
        fs::write(path.with_file_name("key.new"), "partial").unwrap();
        KeyFile::lock(&link).unwrap().append_new().unwrap();
        let after = fs::metadata(&path).unwrap();
        let attributes = |m: &fs::Metadata| (m.uid(), m.gid(), m.mode());
        assert_eq!(attributes(&after), attributes(&before));
        assert_ne!(after.ino(), before.ino());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(!path.with_file_name("key.new").exists());
    }

    #[test]
    fn only_one_process_changes_the_file_at_a_time() {
        let folder = Folder::new();
        let path = folder.file(0o600, &line(1));
        let first = KeyFile::lock(&path).unwrap();
        assert!(KeyFile::lock(&path).is_err());
        drop(first);
        KeyFile::lock(&path).unwrap();
    }
}
