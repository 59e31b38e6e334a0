//! The files of an index: a layer over tantivy's directory of memory maps.
//!
//! The layer adds checksums to the two files that tantivy replaces atomically and does not verify
//! (`meta.json` and `.managed.json`). Only the owner can access the files. Nothing is flushed to
//! the disk: after a power failure, the checksums detect a damaged index, which is built again.
//! This saves about ten flushes for each commit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, DirectoryLock, FileHandle, Lock, MmapDirectory, TerminatingWrite, WatchCallback,
    WatchHandle, WritePtr,
};
use tantivy::{Directory, TantivyError};

use crate::error::Error;

/// The length of a checksum at the end of a file: eight hexadecimal digits.
const CHECKSUM: usize = 8;

/// The folder of an index.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    maps: MmapDirectory,
    folder: Arc<Path>,
    /// The first failure to write a file. If one of tantivy's own threads fails, tantivy does not
    /// report the reason.
    failure: Arc<Mutex<Option<io::Error>>>,
    /// The number of bytes that can still be written. `u64::MAX` means no limit. Tests set a
    /// smaller number to simulate a full disk.
    pub(crate) free: Arc<AtomicU64>,
}

impl Files {
    /// Opens a folder, and creates it if it does not exist.
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        let maps = MmapDirectory::open(folder).map_err(TantivyError::from)?;
        Ok(Self {
            maps,
            folder: folder.into(),
            failure: Arc::default(),
            free: Arc::new(AtomicU64::new(u64::MAX)),
        })
    }

    /// Deletes all files in the folder.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(())
    }

    /// Removes the paths of files that are no longer mapped from tantivy's cache. tantivy removes
    /// these paths only in `get_cache_info`.
    pub(crate) fn forget_unmapped(&self) {
        let _ = self.maps.get_cache_info();
    }

    /// Returns and forgets the first failure to write a file.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    fn record<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| io::Error::new(error.kind(), error.to_string()));
        }
        result
    }

    /// Subtracts `bytes` from the free bytes. Fails if fewer bytes are free.
    fn reserve(&self, bytes: usize) -> io::Result<()> {
        let bytes = bytes as u64;
        let reserve = |free: u64| {
            if free == u64::MAX {
                Some(free)
            } else {
                free.checked_sub(bytes)
            }
        };
        match self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn replace(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.reserve(data.len())?;
        let temporary = self.path(&path.with_extension("new"));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(data)?;
        write!(file, "{:08x}", crc32fast::hash(data))?;
        fs::rename(temporary, self.path(path))
    }
}

/// Returns the content of a file without its checksum, or `None` if the checksum is wrong.
fn verified(mut data: Vec<u8>) -> Option<Vec<u8>> {
    let checksum = data.split_off(data.len().checked_sub(CHECKSUM)?);
    (format!("{:08x}", crc32fast::hash(&data)).as_bytes() == checksum).then_some(data)
}

impl Directory for Files {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.maps.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.maps.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.maps.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.path(path));
        match self.record(file) {
            Ok(file) => Ok(BufWriter::new(Box::new(Output {
                file,
                files: self.clone(),
            }))),
            Err(error) => Err(OpenWriteError::wrap_io_error(error, path.to_owned())),
        }
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        let data = fs::read(self.path(path)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path.to_owned()),
            _ => OpenReadError::wrap_io_error(error, path.to_owned()),
        })?;
        verified(data).ok_or_else(|| {
            let error = io::Error::new(io::ErrorKind::InvalidData, "wrong checksum");
            OpenReadError::wrap_io_error(error, path.to_owned())
        })
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.record(self.replace(path, data))
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        // Creates the lock file for the owner only. tantivy would create it with the default
        // permissions of the process.
        let path = self.path(&lock.filepath);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path);
        self.record(file)
            .map_err(|error| LockError::IoError(Arc::new(error)))?;
        self.maps.acquire_lock(lock)
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}

/// A file of the index that is being written.
#[derive(Debug)]
struct Output {
    file: File,
    files: Files,
}

impl Write for Output {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let result = self
            .files
            .reserve(buffer.len())
            .and_then(|()| self.file.write(buffer));
        self.files.record(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TerminatingWrite for Output {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        Ok(())
    }
}
