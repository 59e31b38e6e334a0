//! `latchmail key export` and `latchmail key import`: copy keys to other hosts. The commands keep
//! the owner and the mode of the key file, and need no other program, so that they work in
//! containers.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use anyhow::{Context as _, bail};
use latchmail_core::key_file::{self, KeyFile};
use latchmail_terminal::output::print_line;
use rustix::process::geteuid;
use zeroize::Zeroizing;

/// Maximum size of an imported file in bytes.
const LARGEST: u64 = 64 * 1024;

pub(super) fn export(path: &Path) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    if out.is_terminal() {
        bail!(
            "the keys are not shown in a terminal: pipe the output to `latchmail key import -` on another host, for example through ssh, or write it to a file that only you can read"
        );
    }
    let text = KeyFile::export(path)?;
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

pub(super) fn import(path: &Path, source: &Path) -> anyhow::Result<()> {
    let mut text = Zeroizing::new(String::with_capacity(usize::try_from(LARGEST)?));
    let read = if source == Path::new("-") {
        std::io::stdin().take(LARGEST).read_to_string(&mut text)
    } else {
        std::fs::File::open(source).and_then(|file| file.take(LARGEST).read_to_string(&mut text))
    };
    read.with_context(|| format!("cannot read {}", source.display()))?;
    let keys = key_file::parse_keys(&text)?;
    let shown = path.display();
    if !path.exists() {
        key_file::create(path, &keys)?;
        give_to_service(path)?;
        return print_line(&format!("Created {shown}. Number of keys: {}.", keys.len()));
    }
    let file = KeyFile::lock(path)?;
    let known = file.keys()?;
    let new: Vec<_> = keys
        .into_iter()
        .filter(|key| !known.contains(key))
        .collect();
    if new.is_empty() {
        return print_line(&format!("{shown} already contains all keys."));
    }
    file.append(&new)?;
    print_line(&format!("Added keys to {shown}: {}.", new.len()))
}

/// Gives a file that root created to the owner of its folder, which is the service's user.
fn give_to_service(file: &Path) -> anyhow::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let file = std::fs::canonicalize(file)?;
    let folder = std::fs::metadata(file.parent().unwrap_or(Path::new("/")))?;
    chown(&file, Some(folder.uid()), Some(folder.gid()))
        .with_context(|| format!("cannot change the owner of {}", file.display()))
}
