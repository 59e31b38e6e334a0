//! The state folder of `latchmail dev`: its location, its lock against concurrent use, the mail servers' folder in it, and the file that describes the running
//! service.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use latchmail_core::config::{STATE, STATE_FILE};
use latchmail_mailserver::{LocalServers, check_folder};
use serde::Serialize;

use super::demo::Demo;

/// Creates the state folder: `$LATCHMAIL_STATE`, or `.latchmail` in the current folder.
pub(crate) fn folder(environment: &HashMap<String, String>) -> anyhow::Result<PathBuf> {
    let named = environment.get("LATCHMAIL_STATE").map(String::as_str);
    let folder = Path::new(named.filter(|name| !name.is_empty()).unwrap_or(STATE));
    // The mail servers' processes can enter the folder but not list it. Each secret in it has its own mode.
    DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(folder)
        .and_then(|()| folder.canonicalize())
        .with_context(|| format!("cannot make the state folder {}", folder.display()))
}

/// Locks the folder against other processes until the returned value is dropped.
pub(crate) fn lock(state: &Path) -> anyhow::Result<File> {
    let lock = File::create(state.join("lock"))
        .with_context(|| format!("cannot write in {}", state.display()))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => bail!(
            "another `latchmail dev` runs with {}; LATCHMAIL_STATE names another folder",
            state.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", state.display()))
        }
    }
}

/// Returns the mail servers' folder: `mail` in the state folder. If that folder cannot be used (see [`check_folder`]), `mail` becomes a permanent link to a
/// folder in `/var/tmp`.
pub(crate) fn mail_folder(state: &Path) -> anyhow::Result<PathBuf> {
    let wanted = state.join("mail");
    let Err(reason) = check_folder(&wanted) else {
        return Ok(wanted);
    };
    if let Ok(kept) = fs::read_link(&wanted) {
        // The folder may have been removed, and another user may have created a file with the same name.
        let found = fs::symlink_metadata(&kept);
        if found.is_ok_and(|found| found.is_dir() && found.uid() == owner()) {
            return Ok(kept);
        }
        fs::remove_file(&wanted)?;
    } else if wanted.exists() {
        bail!("{} cannot be used: {reason}", wanted.display());
    }
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(|error| anyhow!("no randomness: {error}"))?;
    let folder = format!("/var/tmp/latchmail-{:016x}", u64::from_be_bytes(random));
    let folder = PathBuf::from(folder);
    DirBuilder::new()
        .mode(0o711)
        .create(&folder)
        .and_then(|()| symlink(&folder, &wanted))
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn owner() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Writes the configuration for the operator's commands. The file stays after the service ends, because the commands need no running service.
pub(crate) fn keep_settings(state: &Path, text: &str) -> anyhow::Result<()> {
    let file = state.join(STATE_FILE);
    let draft = file.with_extension("toml.new");
    latchmail_mailserver::write_private(&draft, text)
        .and_then(|()| fs::rename(&draft, &file))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// `run.json`: a description of the running service for programs. It exists only while all parts of the service respond.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunFile {
    #[serde(skip)]
    path: PathBuf,
    /// The addresses for clients of the service.
    pub(crate) base_url: String,
    auth_url: String,
    imap: String,
    submission: String,
    smtp: String,
    lmtp: String,
    demo: Demo,
    modules: PathBuf,
}

impl RunFile {
    /// Writes the file atomically: a reader sees the complete file or none.
    pub(crate) fn write(
        state: &Path,
        base_url: &str,
        auth_url: &str,
        stack: &LocalServers,
        demo: &Demo,
        modules: &Path,
    ) -> anyhow::Result<Self> {
        let file = Self {
            path: state.join("run.json"),
            base_url: base_url.into(),
            auth_url: auth_url.into(),
            imap: stack.imap.to_string(),
            submission: stack.submission.to_string(),
            smtp: stack.smtp.to_string(),
            lmtp: stack.lmtp.to_string(),
            demo: demo.clone(),
            modules: modules.into(),
        };
        let text = serde_json::to_string_pretty(&file)?;
        let draft = state.join("run.json.new");
        latchmail_mailserver::write_private(&draft, &text)
            .and_then(|()| fs::rename(&draft, &file.path))
            .with_context(|| format!("cannot write {}", file.path.display()))?;
        Ok(file)
    }

    /// Removes the file.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the file of an earlier process that was killed. It describes nothing that runs.
pub(crate) fn forget_run(state: &Path) {
    let _ = fs::remove_file(state.join("run.json"));
}
