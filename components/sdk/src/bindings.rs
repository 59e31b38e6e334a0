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
    generate_all,
});
