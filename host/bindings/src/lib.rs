//! The host's side of the `latchmail:host` WIT package: the one `bindgen!`, in a crate of its own because it dominates rebuild
//! time, and the value that a `blob` handle stands for.

use bytes::Bytes;

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "everything",
    imports: { default: async | trappable },
    exports: { default: async },
    with: {
        "latchmail:host/blobs.blob": Blob,
    },
});

/// Bytes that stay with the host while a guest holds their handle.
#[derive(Clone, Debug)]
pub struct Blob {
    bytes: Bytes,
}

impl Blob {
    /// A blob of bytes that are in the host's memory already.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes }
    }

    /// Its length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Up to `length` bytes from `offset`; shorter at the end, empty past it.
    #[must_use]
    pub fn read(&self, offset: u64, length: usize) -> Bytes {
        let start = usize::try_from(offset).map_or(self.bytes.len(), |o| o.min(self.bytes.len()));
        let end = start.saturating_add(length).min(self.bytes.len());
        self.bytes.slice(start..end)
    }

    /// All of its bytes.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}
