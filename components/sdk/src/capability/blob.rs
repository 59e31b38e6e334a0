//! Blobs: byte sequences in the memory of the host.

use crate::bindings::latchmail::host::blobs;

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
}
