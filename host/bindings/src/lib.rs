//! The host's side of the `latchmail:host` WIT package: the one `bindgen!`, in a crate of its own because it dominates rebuild
//! time, and the value that a `blob` handle stands for.

mod blob;

pub use blob::{Blob, Pieces, Source};

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "everything",
    imports: { default: async | trappable },
    exports: { default: async },
    with: {
        "latchmail:host/blobs.blob": Blob,
    },
});
