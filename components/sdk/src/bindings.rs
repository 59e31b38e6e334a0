//! Generated guest bindings of the WIT package `latchmail:host`. Modules use the types of
//! [`crate::capability`] instead.
#![allow(
    unsafe_code,
    missing_docs,
    clippy::all,
    clippy::pedantic,
    reason = "generated"
)]

pub mod event_handlers;
pub mod handles;

wit_bindgen::generate!({
    path: "wit",
    world: "everything",
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "latchmail_sdk::bindings",
    with: {
        "latchmail:host/types@1.0.0": crate::bindings::handles::types,
        // Records contain this type instead of a handle, so that tests can create records without a
        // host.
        "latchmail:host/blobs@1.0.0": crate::capability::blob,
    },
    generate_all,
});
