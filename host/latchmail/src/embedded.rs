//! The built-in modules that the program contains, with the feature `embed-modules`. The build
//! script writes their compressed components to `OUT_DIR`.

use latchmail_core::config::{BUILT_IN, EmbeddedModule};

macro_rules! embedded {
    ($name:literal) => {
        EmbeddedModule {
            name: $name,
            compressed: include_bytes!(concat!(env!("OUT_DIR"), "/latchmail_", $name, ".wasm.zst")),
        }
    };
}

/// All built-in modules.
pub(crate) const MODULES: [EmbeddedModule; BUILT_IN.len()] = [
    embedded!("mail"),
    embedded!("credentials"),
    embedded!("aliases"),
    embedded!("domains"),
    embedded!("teams"),
    embedded!("webhooks"),
    embedded!("mcp"),
];
