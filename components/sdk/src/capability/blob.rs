//! Bytes that stay in the host.

use crate::bindings::latchmail::host::blobs;

/// Bytes that stay in the host. A module can pass them on as the body of a response or as an attached file.
#[derive(Debug)]
pub enum Blob {
    /// Bytes in the host, referenced by a handle.
    Host(blobs::Blob),
    /// Bytes of a test that replaces the host.
    Bytes(Vec<u8>),
}
