//! Creates and locks the state folder of `latchmail dev`, and creates the folder of the mail
//! servers in the state folder.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use latchmail_core::config::STATE;
use latchmail_core::secrets;
use latchmail_mailserver::check_folder;

/// Creates the state folder if it does not exist, and returns its path. The path is
/// `$LATCHMAIL_STATE`, or `.latchmail` in the current folder.
pub(crate) fn create_folder(environment: &HashMap<String, String>) -> anyhow::Result<PathBuf> {
    let configured = environment.get("LATCHMAIL_STATE").map(String::as_str);
    let folder = Path::new(configured.filter(|name| !name.is_empty()).unwrap_or(STATE));
    // With this mode, the mail servers can open files in the folder but cannot list the folder.
    // Each secret file in the folder has its own mode.
    DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(folder)
        .and_then(|()| folder.canonicalize())
        .with_context(|| format!("cannot create the state folder {}", folder.display()))
}

/// Locks the state folder against other processes until the returned value is dropped.
pub(crate) fn lock(state: &Path) -> anyhow::Result<File> {
    let file = state.join("lock");
    let lock = File::create(&file).with_context(|| format!("cannot create {}", file.display()))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => bail!(
            "another `latchmail dev` uses the state folder {}; set LATCHMAIL_STATE to another folder",
            state.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", file.display()))
        }
    }
}

/// Returns the folder of the mail servers. The default is the folder `mail` in the state folder.
///
/// If [`check_folder`] rejects the default, `mail` becomes a permanent link to a folder in
/// `/var/tmp`. The function then returns the target of the link.
pub(crate) fn mail_folder(state: &Path) -> anyhow::Result<PathBuf> {
    let default = state.join("mail");
    let Err(reason) = check_folder(&default) else {
        return Ok(default);
    };
    if let Ok(target) = fs::read_link(&default) {
        // The target folder can be missing, or another user can have created a file with the same
        // name.
        let metadata = fs::symlink_metadata(&target);
        if metadata.is_ok_and(|found| found.is_dir() && found.uid() == effective_uid()) {
            return Ok(target);
        }
        fs::remove_file(&default)?;
    } else if default.exists() {
        bail!("{} cannot be used: {reason}", default.display());
    }
    let folder = PathBuf::from(format!("/var/tmp/latchmail-{}", secrets::id()?));
    DirBuilder::new()
        .mode(0o711)
        .create(&folder)
        .and_then(|()| symlink(&folder, &default))
        .with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Writes a file that only its owner can read. A program that reads the file sees either the
/// previous file or the complete new file.
pub(crate) fn write_atomically(file: &Path, text: &str) -> anyhow::Result<()> {
    let mut draft = file.as_os_str().to_owned();
    draft.push(".new");
    latchmail_mailserver::write_private(Path::new(&draft), &format!("{text}\n"))
        .and_then(|()| fs::rename(&draft, file))
        .with_context(|| format!("cannot write {}", file.display()))
}
