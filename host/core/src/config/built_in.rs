//! The built-in modules: the modules that implement the routes of the service. A program can
//! contain their components.

use std::fmt;
use std::io;

use super::Config;

/// A module of the service.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInModule {
    /// The name of the module.
    pub name: &'static str,
    /// The interfaces that the module imports.
    pub grants: &'static [&'static str],
    /// The path prefixes of the module's routes.
    pub paths: &'static [&'static str],
}

const API: &[&str] = &["/api/v1/"];

/// The built-in modules. The sections in `docs/configuration.md` must have the same grants and
/// paths.
pub const BUILT_IN: [BuiltInModule; 7] = [
    BuiltInModule {
        name: "mail",
        grants: &[
            "caller",
            "mailbox",
            "outbox",
            "compose",
            "drafts",
            "deliveries",
            "filters",
        ],
        paths: API,
    },
    BuiltInModule {
        name: "credentials",
        grants: &["caller", "profile", "credentials", "modules"],
        paths: API,
    },
    BuiltInModule {
        name: "aliases",
        grants: &["caller", "aliases"],
        paths: API,
    },
    BuiltInModule {
        name: "domains",
        grants: &["caller", "domains"],
        paths: API,
    },
    BuiltInModule {
        name: "teams",
        grants: &["caller", "teams"],
        paths: API,
    },
    BuiltInModule {
        name: "webhooks",
        grants: &["caller", "webhooks"],
        paths: API,
    },
    BuiltInModule {
        name: "mcp",
        grants: &[
            "caller",
            "mailbox",
            "aliases",
            "outbox",
            "compose",
            "drafts",
            "subscriptions",
        ],
        paths: &["/mcp"],
    },
];

impl BuiltInModule {
    /// Returns the name of the file into which the module is built.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("latchmail_{}.wasm", self.name)
    }
}

/// A built-in module whose component is in the program.
#[derive(Clone, Copy)]
pub struct EmbeddedModule {
    /// The name of the module.
    pub name: &'static str,
    /// The component, compressed with Zstandard (RFC 8878).
    pub compressed: &'static [u8],
}

impl EmbeddedModule {
    /// Returns the component.
    ///
    /// # Errors
    /// Returns an error if the component cannot be decompressed.
    pub fn component(&self) -> io::Result<Vec<u8>> {
        zstd::decode_all(self.compressed)
    }
}

impl fmt::Debug for EmbeddedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Config {
    /// Adds the modules that the program contains. If the configuration section of a module has a
    /// `source`, the service uses that file instead of the component in the program. Settings in
    /// any other section override the defaults of the module.
    #[must_use]
    pub fn with_embedded(mut self, modules: &[EmbeddedModule]) -> Self {
        self.embedded = modules.to_vec();
        for embedded in modules {
            let Some(usual) = BUILT_IN.iter().find(|one| one.name == embedded.name) else {
                continue;
            };
            let section = self.modules.entry(usual.name.into()).or_default();
            if section.source.is_some() {
                continue;
            }
            section.embedded = Some(*embedded);
            for (key, value, usual_value) in [
                ("grants", &mut section.grants, usual.grants),
                ("paths", &mut section.paths, usual.paths),
            ] {
                if !self.keys.contains(&format!("modules.{}.{key}", usual.name)) {
                    *value = usual_value.iter().copied().map(Into::into).collect();
                }
            }
        }
        self
    }
}
