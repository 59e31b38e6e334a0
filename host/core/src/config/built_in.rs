//! The built-in modules: the modules that implement the routes of the service. A program can
//! contain their components. Optional modules are never in the program.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use super::keys::Keys;
use super::{Config, Module};

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
        grants: &["caller", "mailbox", "aliases", "outbox", "subscriptions"],
        paths: &["/mcp"],
    },
];

/// The modules of the service that the operator installs. Their names need no section in the
/// configuration.
pub const OPTIONAL: [BuiltInModule; 1] = [BuiltInModule {
    name: "jmap",
    grants: &[
        "caller", "mailbox", "queries", "outbox", "drafts", "filters", "aliases", "store",
    ],
    paths: &["/jmap/", "/.well-known/jmap"],
}];

/// The setting of an optional module with the URL of the service.
const BASE_URL: &str = "base_url";

impl BuiltInModule {
    /// Sets the grants and the paths that the configuration does not set.
    fn complete(&self, section: &mut Module, keys: &Keys) {
        for (key, value, usual) in [
            ("grants", &mut section.grants, self.grants),
            ("paths", &mut section.paths, self.paths),
        ] {
            if !keys.contains(&format!("modules.{}.{key}", self.name)) {
                *value = usual.iter().copied().map(Into::into).collect();
            }
        }
    }

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
            usual.complete(section, &self.keys);
        }
        self
    }

    /// Returns the policies of the optional modules. Settings in the section of a module override
    /// its defaults.
    #[must_use]
    pub fn optional_modules(&self) -> BTreeMap<String, Module> {
        let policies = OPTIONAL.iter().map(|optional| {
            let section = self.modules.get(optional.name);
            let mut section = section.cloned().unwrap_or_default();
            optional.complete(&mut section, &self.keys);
            let settings = &mut section.config.0;
            settings
                .entry(BASE_URL.into())
                .or_insert_with(|| self.base_url());
            (optional.name.to_owned(), section)
        });
        policies.collect()
    }
}
