//! The built-in modules in the program, with the feature `embed-modules`. The build script sets the
//! variable with their folder.

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
    embedded!("mcp"),
];
