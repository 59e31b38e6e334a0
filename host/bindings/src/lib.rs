//! The host's side of the `latchmail:host` WIT package: the one `bindgen!`, in a crate of its own because it dominates rebuild
//! time, and the value that a `blob` handle stands for.

mod blob;

pub use blob::{Blob, Pieces, Source};

/// The version of the contract, `major.minor.patch`, as `wit/` has it.
pub const VERSION: &str = version(include_str!("../../../wit/types.wit"));

/// What stands between `@` and `;` in the line that names the package.
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
