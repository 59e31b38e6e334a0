//! Opens files in folders of other users without following links.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// An open file or folder of another user. The path of this value refers to the opened file, even
/// if the user has replaced the original path by a link.
#[derive(Debug)]
pub struct Pinned {
    handle: File,
    metadata: Metadata,
}

impl Pinned {
    /// Opens a regular file or a folder without following links.
    ///
    /// SQLite may have locks on the file in this process. Closing this handle does not release
    /// these locks, because the handle is opened with `O_PATH` (fcntl(2), "Advisory record
    /// locking"). Opening a pipe does not wait for the other end.
    ///
    /// # Errors
    /// Returns an error if the path is neither a regular file nor a folder, or if the file has
    /// another hard link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let metadata = handle.metadata()?;
        if !metadata.is_dir() {
            if !metadata.is_file() {
                return Err(io::Error::other(
                    "it is neither a folder nor a regular file",
                ));
            }
            if metadata.nlink() != 1 {
                return Err(io::Error::other("it has another hard link"));
            }
        }
        Ok(Self { handle, metadata })
    }

    /// Returns the metadata of the opened file.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns a path for functions that accept no `O_PATH` handle, such as fchown and fchmod
    /// (proc(5), "/proc/pid/fd").
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd()).into()
    }
}
