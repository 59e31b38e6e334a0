//! Blobs: byte sequences in the memory of the host.
#![expect(
    unsafe_code,
    reason = "the functions for the generated bindings are unsafe"
)]

use super::Error;
use crate::bindings::handles::blobs;

/// The maximum number of bytes that one call of the host returns.
const MAX_READ: u32 = 65_536;

/// Bytes that stay in the host, so that they use no memory of the sandbox. A module can use a blob
/// as the body of a response or as an attached file.
#[derive(Debug)]
pub enum Blob {
    /// Bytes in the host, referenced by a handle.
    Host(blobs::Blob),
    /// Bytes in memory, for tests without the real host.
    Bytes(Vec<u8>),
}

impl Blob {
    /// Returns the bytes if they are in memory. Returns `None` for bytes in the host.
    #[must_use]
    pub fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Self::Host(_) => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Host(blob) => blob.size(),
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Copies all bytes into the memory of the sandbox.
    ///
    /// # Errors
    /// Returns the error of the host if the bytes cannot be read.
    pub fn read_all(&self) -> Result<Vec<u8>, Error> {
        let blob = match self {
            Self::Host(blob) => blob,
            Self::Bytes(bytes) => return Ok(bytes.clone()),
        };
        let mut all = Vec::new();
        loop {
            let read = blob.read(all.len() as u64, MAX_READ)?;
            if read.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(&read);
        }
    }

    /// Returns `length` bytes that start at `offset` as another blob. The bytes are not copied into
    /// the sandbox. The result is shorter if the blob ends before.
    #[must_use]
    pub fn slice(&self, offset: u64, length: u64) -> Self {
        match self {
            Self::Host(blob) => Self::Host(blob.slice(offset, length)),
            Self::Bytes(bytes) => {
                let at = |n: u64| usize::try_from(n).map_or(bytes.len(), |n| n.min(bytes.len()));
                Self::Bytes(bytes[at(offset)..at(offset.saturating_add(length))].to_vec())
            }
        }
    }

    /// Converts a handle that the host returned. Called by the generated bindings.
    pub(crate) unsafe fn from_handle(handle: u32) -> Self {
        // SAFETY: the generated bindings call this function once for each owned handle.
        Self::Host(unsafe { blobs::Blob::from_handle(handle) })
    }

    /// Passes the handle to the host. Called by the generated bindings.
    ///
    /// # Panics
    /// Panics for bytes in memory, because the real host accepts only handles.
    pub(crate) fn take_handle(&self) -> u32 {
        match self {
            Self::Host(blob) => blob.take_handle(),
            Self::Bytes(_) => unreachable!("bytes in memory are only for tests without a host"),
        }
    }
}
