//! The service's key file, read for a backup or a restore.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use latchmail_core::keyring::Keyring;
use latchmail_core::{key_file, secret_file};
use rustix::process::geteuid;
use zeroize::Zeroizing;

use super::write_private;

/// The text and the keys of a key file.
pub(crate) struct KeyFile {
    text: Zeroizing<String>,
    keyring: Keyring,
}

impl KeyFile {
    /// Reads a key file. Root can read the key file of another user.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let metadata = fs::metadata(path)
            .with_context(|| format!("cannot read the key file {}", path.display()))?;
        let user = if geteuid().is_root() {
            metadata.uid()
        } else {
            geteuid().as_raw()
        };
        Ok(Self {
            text: secret_file::read_text_as("the key file", path, user)?,
            keyring: Keyring::of(&key_file::load_as(path, user)?)?,
        })
    }

    pub(crate) fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Returns `true` if both files have the same keys in the same order.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let kids = |file: &Self| -> Vec<String> {
            file.keyring
                .all()
                .iter()
                .map(|key| key.kid.clone())
                .collect()
        };
        kids(self) == kids(other)
    }

    /// Returns an error if the file exists and has other keys. A key is never overwritten, because
    /// data that is encrypted with the key could no longer be decrypted.
    pub(crate) fn require_free(&self, path: &Path) -> anyhow::Result<()> {
        if fs::symlink_metadata(path).is_ok() && !self.is_same(&Self::read(path)?) {
            bail!(
                "{} exists and contains other keys; it is not overwritten, so move it away if it is not needed",
                path.display()
            );
        }
        Ok(())
    }

    /// Writes the keys to a file with mode 0600. Returns `false` and changes nothing if the file
    /// exists with the same keys.
    pub(crate) fn copy_to(&self, path: &Path) -> anyhow::Result<bool> {
        self.require_free(path)?;
        if path.exists() {
            return Ok(false);
        }
        write_private(path, self.text.as_bytes())?;
        super::sync_folder(super::parent(path))?;
        Ok(true)
    }
}
