//! The journal of an attachment: every changed file with its content before and after the change.
//!
//! The journal is written before the first change and removed after the last change was undone. So
//! after a crash at any time, the changes can be undone. The journal contains the content of
//! `main.cf`, and root restores files from the journal. Therefore only root can read and write the
//! journal and its folder.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use base64::engine::general_purpose::STANDARD;
use latchmail_mailserver::Pinned;
use serde::{Deserialize, Serialize};

/// The name of the journal. The journal is in the folder of the service's configuration file.
const FILE: &str = "attach-journal.json";
/// The name of the folder for temporary files, beside the journal.
const SCRATCH: &str = "attach-scratch";
/// The suffix of the temporary file that replaces a file. Dovecot includes only files that end with
/// `.conf`.
const TEMPORARY: &str = ".latchmail-tmp";

const VERSION: u32 = 1;

/// The progress of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// The changes are incomplete: `attach` or `detach` is running or was interrupted.
    Changing,
    /// All changes were made and verified.
    Attached,
}

/// The data that is needed to undo an attachment.
#[derive(Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    pub(super) state: State,
    /// The path of `dovecot.conf`.
    pub(super) dovecot: PathBuf,
    /// The folder of `main.cf`.
    pub(super) postfix: PathBuf,
    pub(super) files: Vec<FileChange>,
    pub(super) parameters: Vec<ParameterChange>,
    pub(super) owners: Vec<OwnerChange>,
    /// The outputs of `doveconf -n`, `postconf -n` and `postconf -M` before the change.
    pub(super) before: [String; 3],
}

/// A change of a file.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct FileChange {
    pub(super) path: PathBuf,
    /// The file before the change, or `None` if the file did not exist.
    pub(super) before: Option<Contents>,
    /// The file after the first of two steps, or `None` if the file is changed in one step.
    pub(super) during: Option<Contents>,
    pub(super) after: Contents,
}

/// The content of a file, and its owner and mode.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Contents {
    #[serde(with = "as_base64")]
    bytes: Vec<u8>,
    mode: u32,
    uid: u32,
    gid: u32,
}

/// A change of the group and the mode of a file or folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OwnerChange {
    pub(super) path: PathBuf,
    pub(super) before: (u32, u32),
    pub(super) after: (u32, u32),
}

/// A table that was added to a parameter of `main.cf`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ParameterChange {
    pub(super) name: String,
    /// Whether `main.cf` contained the parameter before.
    pub(super) was_set: bool,
    pub(super) added: String,
}

/// The location of the journal.
pub(super) struct Location {
    folder: PathBuf,
    /// Locks the folder, so that only one program changes the mail server.
    _lock: File,
}

impl Contents {
    /// Reads a file. Returns `None` if the file does not exist.
    pub(super) fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let read = || {
            let metadata = fs::symlink_metadata(path)?;
            if !metadata.is_file() {
                return Err(std::io::Error::other("it is not a regular file"));
            }
            Ok(Self {
                bytes: fs::read(path)?,
                mode: metadata.mode() & 0o7777,
                uid: metadata.uid(),
                gid: metadata.gid(),
            })
        };
        match read() {
            Ok(contents) => Ok(Some(contents)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the same owner and mode with other content.
    pub(super) fn with_bytes(&self, bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..self.clone()
        }
    }

    /// Replaces a file atomically.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let temporary = temporary(path);
        let write = || {
            let _ = fs::remove_file(&temporary);
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(&self.bytes)?;
            chown(&temporary, Some(self.uid), Some(self.gid))?;
            file.set_permissions(Permissions::from_mode(self.mode))?;
            file.sync_all()?;
            fs::rename(&temporary, path)?;
            sync_folder(path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

impl FileChange {
    /// Returns the change that creates a file. Root owns the file. `group` is the id of the file's
    /// group.
    pub(super) fn create(path: PathBuf, text: String, mode: u32, group: Option<u32>) -> Self {
        let after = Contents {
            bytes: text.into_bytes(),
            mode,
            uid: 0,
            gid: group.unwrap_or_default(),
        };
        Self {
            path,
            before: None,
            during: None,
            after,
        }
    }

    /// Sets the owner of the new file.
    pub(super) fn owned_by(mut self, user: u32) -> Self {
        self.after.uid = user;
        self
    }

    /// Makes the change. An existing file at the path of a new file is an error.
    pub(super) fn apply(&self) -> anyhow::Result<()> {
        let current = Contents::read(&self.path)?;
        if current != self.before && current != self.during {
            bail!("{} exists or was changed concurrently", self.path.display());
        }
        self.after.write(&self.path)
    }

    /// Makes the first of two steps of the change.
    pub(super) fn begin(&self) -> anyhow::Result<()> {
        match &self.during {
            Some(during) => during.write(&self.path),
            None => Ok(()),
        }
    }

    /// Returns `true` if `contents` is the result of this change or of its first step.
    pub(super) fn has_made(&self, contents: &Contents) -> bool {
        *contents == self.after || self.during.as_ref() == Some(contents)
    }

    /// Replaces the text of the file that the change created.
    pub(super) fn rewrite(&mut self, text: String) -> anyhow::Result<()> {
        self.after.bytes = text.into_bytes();
        self.after.write(&self.path)
    }

    /// Removes the temporary file that an interrupted change left.
    pub(super) fn clean(&self) -> anyhow::Result<()> {
        remove(&temporary(&self.path))
    }

    /// Removes a created file.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        remove(&self.path)
    }
}

impl OwnerChange {
    pub(super) fn apply(&self) -> anyhow::Result<()> {
        self.set(self.after)
    }

    pub(super) fn undo(&self) -> anyhow::Result<()> {
        self.set(self.before)
    }

    fn set(&self, (gid, mode): (u32, u32)) -> anyhow::Result<()> {
        let set = || {
            let opened = Pinned::open(&self.path)?;
            // chown removes the setgid bit, so the mode is set afterwards.
            chown(opened.path(), None, Some(gid))?;
            fs::set_permissions(opened.path(), Permissions::from_mode(mode))
        };
        match set() {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot change {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

impl Location {
    /// Locks the folder of the configuration file `config`.
    ///
    /// # Errors
    /// Returns an error if another user can write to the folder, or if another `attach` or `detach`
    /// is running.
    pub(super) fn beside(config: &Path) -> anyhow::Result<Self> {
        let config = std::path::absolute(config)?;
        let folder = config
            .parent()
            .with_context(|| format!("{} has no folder", config.display()))?
            .to_owned();
        let open = || {
            let file = File::open(&folder)?;
            let metadata = file.metadata()?;
            Ok::<_, std::io::Error>((file, metadata))
        };
        let (lock, metadata) =
            open().with_context(|| format!("cannot open {}", folder.display()))?;
        if metadata.uid() != 0 || metadata.mode() & 0o022 != 0 {
            bail!(
                "root must own {}, and only root may write to it, because `latchmail detach` restores files from the journal in it: chown root {0} && chmod go-w {0}",
                folder.display()
            );
        }
        if lock.try_lock().is_err() {
            bail!("another `latchmail attach` or `latchmail detach` is running");
        }
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// Returns the path of a file beside the journal.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Creates an empty folder for temporary files.
    pub(super) fn scratch(&self) -> anyhow::Result<PathBuf> {
        let scratch = self.file(SCRATCH);
        self.remove_scratch()?;
        fs::create_dir(&scratch)
            .and_then(|()| fs::set_permissions(&scratch, Permissions::from_mode(0o700)))
            .with_context(|| format!("cannot create {}", scratch.display()))?;
        Ok(scratch)
    }

    pub(super) fn remove_scratch(&self) -> anyhow::Result<()> {
        let scratch = self.file(SCRATCH);
        match fs::remove_dir_all(&scratch) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", scratch.display()))
            }
            _ => Ok(()),
        }
    }

    /// Reads the journal. Returns `None` if Latchmail is not attached.
    pub(super) fn read(&self) -> anyhow::Result<Option<Journal>> {
        let path = self.file(FILE);
        let Some(contents) = Contents::read(&path)? else {
            return Ok(None);
        };
        let journal: Journal = serde_json::from_slice(&contents.bytes)
            .with_context(|| format!("the journal {} is damaged", path.display()))?;
        if journal.version != VERSION {
            bail!(
                "the journal {} has version {}, which this version of Latchmail does not know",
                path.display(),
                journal.version
            );
        }
        Ok(Some(journal))
    }

    pub(super) fn write(&self, journal: &Journal) -> anyhow::Result<()> {
        let contents = Contents {
            bytes: serde_json::to_vec_pretty(journal)?,
            mode: 0o600,
            uid: 0,
            gid: 0,
        };
        contents.write(&self.file(FILE))
    }

    pub(super) fn remove(&self) -> anyhow::Result<()> {
        remove(&temporary(&self.file(FILE)))?;
        remove(&self.file(FILE))?;
        sync_folder(&self.file(FILE))?;
        Ok(())
    }
}

impl Journal {
    pub(super) fn new(dovecot: PathBuf, postfix: PathBuf, before: [String; 3]) -> Self {
        Self {
            version: VERSION,
            state: State::Changing,
            dovecot,
            postfix,
            files: Vec::new(),
            parameters: Vec::new(),
            owners: Vec::new(),
            before,
        }
    }
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY);
    name.into()
}

/// Removes a file if it exists.
fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Writes the entries of the folder of `path` to the disk.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

mod as_base64 {
    use base64::Engine as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::STANDARD;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Files that the service's user could put into its folder.
    #[test]
    fn a_change_of_the_owner_follows_no_links() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        let link = folder.path().join("link");
        symlink(&secret, &link).unwrap();
        let gid = fs::metadata(&secret).unwrap().gid();
        let change = |path: &Path| OwnerChange {
            path: path.into(),
            before: (gid, 0o600),
            after: (gid, 0o660),
        };
        assert!(change(&link).apply().is_err());
        assert_eq!(fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
        change(&secret).apply().unwrap();
        assert_eq!(fs::metadata(&secret).unwrap().mode() & 0o777, 0o660);
        fs::hard_link(&secret, folder.path().join("name")).unwrap();
        assert!(change(&secret).undo().is_err());
        change(&folder.path().join("missing")).undo().unwrap();
    }

    #[test]
    fn a_new_file_is_created_once_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let metadata = fs::metadata(folder.path()).unwrap();
        let path = folder.path().join("a.conf");
        let create = FileChange::create(path.clone(), "a".into(), 0o640, Some(metadata.gid()));
        let create = create.owned_by(metadata.uid());
        create.apply().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert!(create.apply().is_err(), "the file exists");
        create.remove().unwrap();
        create.remove().unwrap();
        assert!(!path.exists());
    }
}
