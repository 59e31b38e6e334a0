//! Contains the host bindings for the WIT package `latchmail:host`, and the data type for the
//! `blob` handle.
//!
//! The expansion of `bindgen!` is slow. Because this is a separate crate, the expansion is not
//! repeated after a change in another crate.

mod blob;

pub use blob::{Blob, BlobSource, ByteStream};

/// The version of the WIT package in `wit/`: `major.minor.patch`.
pub const VERSION: &str = version(include_str!("../../../wit/types.wit"));

/// Returns the text between the first `@` and the following `;`. In a WIT file, the first `@` is in
/// the line with the name and version of the package.
const fn version(wit: &str) -> &str {
    let bytes = wit.as_bytes();
    let mut start = 0;
    while bytes[start] != b'@' {
        start += 1;
    }
    let (_, rest) = wit.split_at(start + 1);
    let bytes = rest.as_bytes();
    let mut end = 0;
    while bytes[end] != b';' {
        end += 1;
    }
    let (version, _) = rest.split_at(end);
    version
}

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "everything",
    imports: { default: async | trappable },
    exports: { default: async },
    with: {
        "latchmail:host/blobs.blob": Blob,
    },
});
