//! The state folder of `latchmail dev`: where it is, that one process uses it at a time, where the mail servers' part of it is, and
//! the file that says what runs.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;

use super::demo::Demo;
use super::{Stack, unsuitable};
use crate::config::{STATE, STATE_FILE};

/// Makes the state folder: `$LATCHMAIL_STATE`, or `.latchmail` where one stands.
pub(super) fn folder(environment: &HashMap<String, String>) -> anyhow::Result<PathBuf> {
    let named = environment.get("LATCHMAIL_STATE").map(String::as_str);
    let folder = Path::new(named.filter(|name| !name.is_empty()).unwrap_or(STATE));
    // Passed through by the mail servers' processes, listed by nobody; each secret in it has a mode of its own.
    DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(folder)
        .and_then(|()| folder.canonicalize())
        .with_context(|| format!("cannot make the state folder {}", folder.display()))
}

/// Keeps a second process out for as long as the answer is held.
pub(super) fn lock(state: &Path) -> anyhow::Result<File> {
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

/// The mail servers' folder: `mail` within the state folder; where that will not do (see [`unsuitable`]), a folder in `/var/tmp` that
/// `mail` is then a link to, for good.
pub(super) fn mail_folder(state: &Path) -> anyhow::Result<PathBuf> {
    let wanted = state.join("mail");
    let Some(reason) = unsuitable(&wanted) else {
        return Ok(wanted);
    };
    if let Ok(kept) = fs::read_link(&wanted) {
        // It may have been cleared away, and somebody else may have put something in its place.
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

/// Writes down the configuration, for the operator's verbs. It stays when the service ends: they need none that runs.
pub(super) fn keep_settings(state: &Path, text: &str) -> anyhow::Result<()> {
    let file = state.join(STATE_FILE);
    let draft = file.with_extension("toml.new");
    super::demo::write_private(&draft, text)
        .and_then(|()| fs::rename(&draft, &file))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// `run.json`: what runs, for programs. It is there while, and only while, all of it answers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunFile {
    #[serde(skip)]
    path: PathBuf,
    /// How clients reach the service.
    pub(super) base_url: String,
    auth_url: String,
    imap: String,
    submission: String,
    smtp: String,
    lmtp: String,
    demo: Demo,
    modules: PathBuf,
}

impl RunFile {
    /// Writes it in one step: a reader finds all of it or nothing.
    pub(super) fn write(
        state: &Path,
        base_url: &str,
        auth_url: &str,
        stack: &Stack,
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
        super::demo::write_private(&draft, &text)
            .and_then(|()| fs::rename(&draft, &file.path))
            .with_context(|| format!("cannot write {}", file.path.display()))?;
        Ok(file)
    }

    /// Removes it.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what a predecessor that was killed left: it names nothing that runs.
pub(super) fn forget_run(state: &Path) {
    let _ = fs::remove_file(state.join("run.json"));
}
