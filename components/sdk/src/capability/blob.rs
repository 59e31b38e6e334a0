//! Blobs: byte sequences in the memory of the host.
#![expect(
    unsafe_code,
    reason = "the functions for the generated bindings are unsafe"
)]

use super::{Error, Host};
use crate::bindings::handles::blobs;

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

    /// Returns at most `length` bytes that start at `offset`. Returns fewer bytes if the blob ends
    /// before.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if `length` is more than 65,536.
    pub fn read(&self, offset: u64, length: u32) -> Result<Vec<u8>, Error> {
        match self {
            Self::Host(blob) => blob.read(offset, length),
            Self::Bytes(_) => match self.slice(offset, length.into()) {
                Self::Bytes(bytes) => Ok(bytes),
                Self::Host(_) => Err(Error::Internal),
            },
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

/// Blobs that a module creates. Needs no grant.
///
/// Both functions return [`Error::TooLarge`] if the bytes that the calls in one request create or
/// decode have more than 64 MiB in total.
pub trait Blobs {
    /// Returns a blob with these bytes.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] as described for [`Blobs`].
    fn create_blob(&self, bytes: Vec<u8>) -> Result<Blob, Error>;

    /// Returns a blob with the decoded bytes of a part of a message. `encoding` is `base64` or
    /// `quoted-printable`.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for another encoding, and [`Error::TooLarge`] as described for
    /// [`Blobs`].
    fn decode_blob(&self, encoded: Blob, encoding: &str) -> Result<Blob, Error>;
}

impl Blobs for Host {
    fn create_blob(&self, bytes: Vec<u8>) -> Result<Blob, Error> {
        blobs::create(&bytes).map(Blob::Host)
    }

    fn decode_blob(&self, encoded: Blob, encoding: &str) -> Result<Blob, Error> {
        match encoded {
            Blob::Host(encoded) => blobs::decode(encoded, encoding).map(Blob::Host),
            Blob::Bytes(_) => Err(Error::Internal),
        }
    }
}
