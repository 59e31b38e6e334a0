//! Host bindings for the `latchmail:host` WIT package. The only `bindgen!` is in a separate crate because its expansion takes most of the time of a rebuild.
//! The crate also contains the type behind the `blob` handle.

mod blob;

pub use blob::{Blob, Pieces, Source};

/// The version of the WIT package in `wit/`: `major.minor.patch`.
pub const VERSION: &str = version(include_str!("../../../wit/types.wit"));

/// Returns the text between `@` and `;` in the line that names the package.
const fn version(wit: &str) -> &str {
    let bytes = wit.as_bytes();
    let mut at = 0;
    while bytes[at] != b'@' {
        at += 1;
    }
    let (_, from) = wit.split_at(at + 1);
    let bytes = from.as_bytes();
    let mut end = 0;
    while bytes[end] != b';' {
        end += 1;
    }
    let (version, _) = from.split_at(end);
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
