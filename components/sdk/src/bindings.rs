//! Generated guest bindings of the WIT package `latchmail:host`. Modules use the types of
//! [`crate::capability`] instead.
#![allow(
    unsafe_code,
    missing_docs,
    clippy::all,
    clippy::pedantic,
    reason = "generated"
)]

wit_bindgen::generate!({
    path: "wit",
    world: "everything",
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "latchmail_sdk::bindings",
    // Records contain this type instead of a handle, so tests can create records without a host.
    with: { "latchmail:host/blobs@1.0.0": crate::capability::blob },
    generate_all,
});

/// The interface `blobs` with the type of its handles.
pub mod handles {
    wit_bindgen::generate!({
        path: "wit",
        inline: "package latchmail:sdk; world handles { import latchmail:host/blobs@1.0.0; }",
        world: "latchmail:sdk/handles",
        with: { "latchmail:host/types@1.0.0": crate::bindings::latchmail::host::types },
        generate_all,
    });

    pub use latchmail::host::blobs;
}
