//! The interface `blobs` with the type of its handles, and the types that all interfaces share.

wit_bindgen::generate!({
    path: "wit",
    inline: "package latchmail:sdk; world handles { import latchmail:host/blobs@1.0.0; }",
    world: "latchmail:sdk/handles",
    generate_all,
});

pub use latchmail::host::{blobs, types};
