//! The interface `handlers`. It is not in the world of the other bindings, because a component can
//! export `module` and `handlers` together or one of them alone.

wit_bindgen::generate!({
    path: "wit",
    world: "event-handlers",
    pub_export_macro: true,
    export_macro_name: "export_event_handlers",
    default_bindings_module: "latchmail_sdk::bindings::event_handlers",
    with: {
        "latchmail:host/types@1.0.0": crate::bindings::handles::types,
    },
    generate_all,
});
